/* SPDX-License-Identifier: Apache-2.0 */
/* The style sheet of pages, in parts, as C has a limit for the length of a literal. */
#include "core/page/page.h"

static const char FRAME[] =
    "<style>\n"
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#5c5c5c;"
    "--rule:#d9d9d9;--good:#00664a;--bad:#b00020;--shade:#f3dfc1;--band:#e4e4e4;"
    "--c0:#0067a3;--c1:#b34f00;--c2:#007a58;--c3:#a8457f;--c4:#7d6000;--c5:#3f6fb0}\n"
    "@media (prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#ececec;"
    "--soft:#a9adb3;--rule:#3a3e44;--good:#5fd3ae;--bad:#ff8a94;--shade:#4a3a20;"
    "--band:#33373d;"
    "--c0:#56b4e9;--c1:#ff8c42;--c2:#2fd0a0;--c3:#e39ac7;--c4:#f0c84b;--c5:#9ecbff}}\n"
    "body{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;"
    "max-width:1160px;margin:1.5rem auto;padding:0 1rem;overflow-wrap:break-word}\n"
    "h1{font-size:1.5rem;line-height:1.25;margin:0 0 .6rem}"
    "h2{font-size:1.1rem;margin:2rem 0 .5rem}a{color:var(--c0)}\n"
    ".soft,.tick{color:var(--soft)}.tick{fill:var(--soft);font-size:12px}\n"
    "dl.setup{display:grid;grid-template-columns:repeat(auto-fill,"
    "minmax(min(100%,13rem),1fr));gap:.45rem 1.6rem;margin:1.2rem 0;padding:.7rem "
    ".9rem;border:1px solid var(--rule);border-radius:4px;font-size:.9rem}\n"
    "dl.setup .long{grid-column:span 2}dl.setup dt{color:var(--soft);font-size:.8rem}"
    "dl.setup dd{margin:0;overflow-wrap:anywhere;line-height:1.35}\n"
    ".said{font-size:1.05rem;border-left:4px solid var(--rule);padding-left:.8rem;"
    "margin:.5rem 0}\n"
    ".said.shown{border-color:var(--good)}.said.bad{border-color:var(--bad)}\n"
    ".wide{overflow-x:auto;font-size:.9rem}table{border-collapse:collapse;width:100%}\n"
    "caption{text-align:left;color:var(--soft);padding:.3rem 0;"
    "max-width:calc(100vw - 2rem)}\n"
    "th,td{padding:.35rem .6rem;border-bottom:1px solid var(--rule);text-align:right;"
    "white-space:nowrap}\n"
    "th{white-space:normal;vertical-align:bottom}th.l,td.l{text-align:left}"
    "tbody th{font-weight:600;white-space:nowrap;vertical-align:middle}"
    "td.w{white-space:normal;min-width:9rem}td{font-variant-numeric:tabular-nums}\n"
    ".good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}\n";

static const char CHARTS[] =
    ".charts{display:grid;gap:1.5rem 2rem;margin:1rem 0;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}\n"
    "figure{margin:0;overflow-x:auto;min-width:0}"
    "svg{display:block;width:100%;max-width:600px;height:auto}\n"
    "svg text{fill:var(--ink);font-size:13px}svg text.tick{fill:var(--soft);"
    "font-size:12px}svg text.head{font-size:15px;font-weight:600}\n"
    ".grid{stroke:var(--rule)}.axis{stroke:var(--soft);fill:none}\n"
    ".mark{stroke:var(--ink);stroke-width:2.5;fill:none}"
    ".ideal{stroke:var(--ink);stroke-dasharray:6 4;fill:none}\n"
    ".whisker{stroke:var(--ink);stroke-width:1.5;fill:none}"
    ".whisker.halo{stroke:var(--paper);stroke-width:4}\n"
    ".band{fill:var(--band)}.shaded{fill:var(--shade)}"
    ".stretch{fill:none;stroke:var(--rule)}\n"
    ".line{fill:none;stroke-width:2}.thread{fill:none;stroke-width:1;opacity:.5}\n"
    ".line.s0{stroke:var(--c0);stroke-width:5;opacity:.55}\n"
    ".line.s1{stroke:var(--c1)}.line.s2{stroke:var(--c2);stroke-dasharray:8 4}\n"
    ".line.s3{stroke:var(--c3);stroke-dasharray:3 3}\n"
    ".line.s4{stroke:var(--c4);stroke-dasharray:12 3 3 3}\n"
    ".line.s5{stroke:var(--c5);stroke-dasharray:1 4}\n"
    ".line.again{stroke-width:2;opacity:1;stroke-dasharray:16 3 2 3}\n"
    ".bar.s0{fill:var(--c0)}.bar.s1{fill:var(--c1)}.bar.s2{fill:var(--c2)}\n"
    ".bar.s3{fill:var(--c3)}.bar.s4{fill:var(--c4)}.bar.s5{fill:var(--c5)}\n"
    ".thread.s0,.again.s0{stroke:var(--c0)}.thread.s1,.again.s1{stroke:var(--c1)}\n"
    ".thread.s2,.again.s2{stroke:var(--c2)}.thread.s3,.again.s3{stroke:var(--c3)}\n"
    ".thread.s4,.again.s4{stroke:var(--c4)}.thread.s5,.again.s5{stroke:var(--c5)}\n"
    ".bar.again{fill-opacity:.35;stroke-width:2;stroke-dasharray:4 2}\n"
    ".bar.third{fill-opacity:0;stroke-width:2}"
    ".bar.third.s0{stroke:var(--c0)}.bar.third.s1{stroke:var(--c1)}"
    ".bar.third.s2{stroke:var(--c2)}.bar.third.s3{stroke:var(--c3)}"
    ".bar.third.s4{stroke:var(--c4)}.bar.third.s5{stroke:var(--c5)}\n"
    ".bar.hollow{fill:var(--paper);stroke:var(--soft);stroke-dasharray:2 2}"
    ".bar.grey{fill:var(--soft)}\n"
    "svg.gantt{max-width:none;min-width:60rem;margin-top:1rem}"
    ".bar.late{fill-opacity:.4}\n"
    "svg text.box{fill:var(--paper);font-size:11px}"
    "svg text.box.late,svg text.box.open{fill:var(--ink)}\n";

static const char MEDIA[] =
    "@media (max-width:40rem){body{margin:.8rem auto}h1{font-size:1.25rem}"
    ".said{font-size:1rem}th,td{padding:.3rem .35rem}"
    "tbody th{white-space:normal;overflow-wrap:anywhere;min-width:5rem}"
    "svg text.tick{font-size:13px}svg text.box{font-size:12.5px}"
    "dl.setup{grid-template-columns:repeat(auto-fill,minmax(9rem,1fr))}}\n"
    "@media print{:root{color-scheme:light}body{max-width:none;margin:0;font-size:11pt}"
    "figure,tr,.said,dl.setup{break-inside:avoid}h2{break-after:avoid}"
    ".wide,figure{overflow:visible}.wide{font-size:7pt}"
    "th,td{padding:.2rem .25rem;white-space:normal}"
    "svg.gantt{min-width:0}a{color:inherit}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}\n"
    "</style>\n";

void cadre_page_style(struct cadre_text *out)
{
    cadre_text_append(out, FRAME, sizeof FRAME - 1);
    cadre_text_append(out, CHARTS, sizeof CHARTS - 1);
    cadre_text_append(out, MEDIA, sizeof MEDIA - 1);
}
