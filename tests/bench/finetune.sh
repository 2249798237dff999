#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/finetune.sh: which orderings of the published study of fine-tuning hold for
# conf/compare-finetune.ini, as a markdown table: times by the referee's intervals, memory and
# transfers as counted. "not shown": the intervals overlap, or the run was not ranked. Needs a
# built tree (CADRE_BUILD, or build/). COMPARISON names the folder of one that was made before.
# usage: tests/bench/finetune.sh [SECTION.KEY=VALUE]...
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
out=${COMPARISON:-$tmp/out}
settings "data.cache=$tmp/cache" "$@"
[ -n "${COMPARISON:-}" ] ||
    "$cadre" compare "$top/conf/compare-finetune.ini" --out "$out" "${sets[@]}" \
        >/dev/null 2>"$tmp/log" || fail "$(tail -n 3 "$tmp/log")"

awk -F , '
    function value(run, key) { return cell[run, at[key]] }

    # Bounds of a step in steps of the baseline, which is 1; "" of a run that the referee has
    # not ranked, as where other processes disturbed the machine.
    function bound(run, side) {
        if (run == "lora-1")
            return 1
        return value(run, "speed_verdict") == "not ranked" ? "" : 1 / value(run, "speedup_" side)
    }
    function holds_time(fast, slow) {
        if (bound(fast, "low") == "" || bound(slow, "low") == "")
            return "not shown"
        return bound(fast, "low") < bound(slow, "high") ? "yes" : \
               bound(slow, "low") < bound(fast, "high") ? "no" : "not shown"
    }
    function ms(run) { return sprintf("%.2f", 1000 * value(run, "step_s")) }
    function mib(run) { return sprintf("%.2f", value(run, "peak_bytes") / 1048576) }
    function sent(run) {
        return sprintf("%.3f", value(run, "comm_bytes") / value(run, "steps") / 1e6)
    }
    function row(what, figures, holds, why) {
        printf "| %s | %s | %s | %s |\n", what, figures, holds, holds == "yes" ? "" : why
    }
    function time_row(what, fast, slow, why) {
        h = holds_time(fast, slow)
        row(what, ms(fast) " and " ms(slow) " ms", h,
            h == "no" ? why : "the intervals of the referee overlap, or it has not ranked the runs")
    }

    { sub(/\r$/, "") }
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; cells = NF; next }
    { if (NF != cells) { print "a line of report.csv has " NF " cells" >"/dev/stderr"; exit 1 }
      for (i = 1; i <= NF; i++) cell[$1, i] = $i }
    END {
        n = split("lora-1 lora-2 full-1 full-2 qlora-1 qlora-2 qat-1 qat-2", all, " ")
        for (i = 1; i <= n; i++)
            if (value(all[i], "steps") == "") {
                print "expected the run " all[i] " in report.csv, found none" >"/dev/stderr"
                exit 1
            }
        weights = sprintf("%.2f", value("full-1", "params") * 4 / 1048576)
        print "| published | here | holds | why not |"
        print "|---|---|---|---|"
        for (r = 1; r <= 2; r++) {
            ranks = r == 1 ? ", one rank" : ", two ranks"
            time_row("a step of LoRA takes less time than of QLoRA" ranks, "lora-" r,
                "qlora-" r, "decoding a small matrix costs less than the noise of a step")
            time_row("a step of LoRA takes less time than of QAT" ranks, "lora-" r, "qat-" r,
                "in so narrow a model adapters cost more than what they save")
        }
        time_row("a step takes longer on two ranks: LoRA", "lora-1", "lora-2",
            "the ranks have cores of their own, and threads share memory in place of links")
        time_row("a step takes longer on two ranks: QAT", "qat-1", "qat-2",
            "the ranks have cores of their own, and threads share memory in place of links")
        least = "qlora-1"; most = "qat-1"
        split("lora-1 full-1 qlora-1 qat-1", all, " ")
        for (i = 1; i <= 4; i++) {
            if (value(all[i], "peak_bytes") + 0 < value(least, "peak_bytes") + 0) least = all[i]
            if (value(all[i], "peak_bytes") + 0 > value(most, "peak_bytes") + 0) most = all[i]
        }
        row("QLoRA needs least memory", mib("qlora-1") " MiB; " mib(least) " of " least,
            least == "qlora-1" ? "yes" : "no",
            "the weights are " weights " MiB here: activations and adapters are most of it")
        row("QAT needs most memory", mib("qat-1") " MiB; " mib(most) " of " most,
            most == "qat-1" ? "yes" : "no", "activations are most of it, and all methods keep them")
        d = value("lora-2", "peak_bytes") / value("lora-1", "peak_bytes")
        row("LoRA needs the same memory on more ranks", mib("lora-1") " and " mib("lora-2") " MiB",
            d > 0.9 && d < 1.1 ? "yes" : "no", "buckets of gradients and their buffers count here")
        d = value("qat-2", "comm_bytes") / value("lora-2", "comm_bytes")
        row("QAT transfers more than 4 times what LoRA does",
            sent("qat-2") " and " sent("lora-2") " MB a step", d > 4 ? "yes" : "no",
            "adapters of rank 8 are a large part of so narrow a model")
    }' "$out/report.csv"
