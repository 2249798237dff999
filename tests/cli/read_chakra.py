# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces of `cadre plan --simulate --chakra DIR`, by hand: what the files
of all ranks have to be among themselves, and that letting each node begin as soon as what
it comes after lets it gives the simulated step again.

    python3 read_chakra.py DIR PLAN.json
"""
import glob
import json
import os
import struct
import sys

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 2, 5, 6, 7, 9
# a rank that sends n bytes of its own of R: as core/comm/comm.h has it
SENT = {
    ALL_REDUCE: lambda n, ranks: 2 * n * (ranks - 1) / ranks,
    REDUCE_SCATTER: lambda n, ranks: n * (ranks - 1) / ranks,
    ALL_TO_ALL: lambda n, ranks: n * (ranks - 1) / ranks,
    ALL_GATHER: lambda n, ranks: n * (ranks - 1),
    BROADCAST: lambda n, ranks: n,
    BARRIER: lambda n, ranks: 0,
}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: [value]}: whole numbers, and bytes of all else."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                size, at = varint(data, at)
            assert size is not None and at + size <= len(data), (kind, size)
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def attributes(messages):
    found = {}
    for message in messages:
        parts = fields(message)
        ((field, (value,)),) = [p for p in parts.items() if p[0] > 2]
        name = parts[1][0].decode()
        assert name not in found, name
        if field == 3:
            (value,) = struct.unpack("<d", value)
        found[name] = value.decode() if field == 29 else value
        # the types by which Chakra's first feeder takes them
        want = {"is_cpu_op": 27, "pg_name": 29, "tensor_size": 13, "sent_bytes": 13}
        want.update(dict.fromkeys(("num_ops", "comm_size", "comm_type"), 9))
        want.update(dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), 7))
        assert want.get(name, field) == field, (name, field)
    return found


def packed(messages):
    values = []
    for message in messages:
        at = 0
        while at < len(message):
            value, at = varint(message, at)
            values.append(value)
    return values


class Node:
    def __init__(self, rank, data):
        parts = fields(data)
        self.rank = rank
        self.id = parts.get(1, [0])[0]
        self.name = parts[2][0].decode()
        self.type = parts[3][0]
        self.deps = packed(parts.get(5, []))
        self.start = parts.get(6, [0])[0]
        self.us = parts.get(7, [0])[0]
        self.attr = attributes(parts.get(10, []))
        self.end = None


def read(path, rank):
    data, at, messages = open(path, "rb").read(), 0, []
    while at < len(data):
        size, at = varint(data, at)
        assert at + size <= len(data), f"{path} ends in a message"
        messages.append(data[at : at + size])
        at += size
    meta = fields(messages[0])
    assert meta[1][0], "no version"
    return attributes(meta[2]), [Node(rank, m) for m in messages[1:]]


def check_rank(nodes):
    known = set()
    for node in nodes:
        assert node.id not in known, f"two nodes are {node.id}"
        missing = [d for d in node.deps if d not in known]
        assert not missing, f"node {node.id} comes after {missing}, which are not before it"
        known.add(node.id)
        if node.type == COMPUTE:
            work = node.attr["is_cpu_op"] or node.attr["num_ops"] > 0
            assert work and node.name, (node.id, node.attr)
        else:
            assert node.attr["is_cpu_op"] == 0 and "comm_size" in node.attr, node.attr


def pair(ranks, groups):
    """Lists of nodes that are one operation."""
    made, sent, called = [], {}, {}
    for nodes in ranks:
        for node in nodes:
            a = node.attr
            if node.type in (SEND, RECEIVE):
                ends = a["comm_src"], a["comm_dst"]
                assert ends[node.type == RECEIVE] == node.rank, (node.rank, a)
                both = sent.setdefault(ends + (a["comm_tag"],), {})
                assert node.type not in both, f"two messages {ends} with tag {a['comm_tag']}"
                both[node.type] = node
            elif node.type == COLLECTIVE:
                called.setdefault(a.get("pg_name", "0"), {}).setdefault(node.rank, []).append(node)
    for key, both in sent.items():
        assert len(both) == 2, f"message {key} has one end"
        sizes = [n.attr["comm_size"] for n in both.values()]
        assert sizes[0] == sizes[1], (key, sizes)
        made.append(list(both.values()))
    for name, by_rank in called.items():
        assert sorted(by_rank) == sorted(groups[name]), (name, sorted(by_rank), groups[name])
        assert len({len(nodes) for nodes in by_rank.values()}) == 1, name
        for operation in zip(*by_rank.values()):
            kinds = {(n.attr["comm_type"], n.attr["comm_size"], n.name) for n in operation}
            assert len(kinds) == 1, (name, kinds)
            made.append(list(operation))
    return made


def replay(ranks, operations):
    """Every node begins as soon as it may, and an operation when all of its ranks let it."""
    nodes = {(n.rank, n.id): n for rank in ranks for n in rank}
    together = {key: [n] for key, n in nodes.items()}
    for operation in operations:
        together.update({(n.rank, n.id): operation for n in operation})
    after, missing = {}, {}
    for key, n in nodes.items():
        group = id(together[key])
        missing[group] = missing.get(group, 0) + len(n.deps)
        for dep in n.deps:
            after.setdefault((n.rank, dep), []).append(together[key])
    todo = list({id(group): group for group in together.values() if not missing[id(group)]}.values())
    while todo:
        group = todo.pop()
        begin = max((nodes[n.rank, d].end for n in group for d in n.deps), default=0)
        for n in group:
            n.begin, n.end = begin, begin + n.us
            for other in after.get((n.rank, n.id), []):
                missing[id(other)] -= 1
                if missing[id(other)] == 0:
                    todo.append(other)
    stuck = [n for n in nodes.values() if n.end is None]
    assert not stuck, f"a cycle: {stuck[0].rank} {stuck[0].id} {stuck[0].name}"


def main(folder, plan_path):
    plan = json.load(open(plan_path))
    ranks, metas = [], []
    for r in range(plan["ranks"]):
        meta, nodes = read(f"{folder}/step.{r}.et", r)
        assert meta["rank"] == r and meta["ranks"] == plan["ranks"] and meta["simulated"]
        assert meta["stack"] == plan["stack"] and meta["hardware"] == plan["hardware"]
        metas.append(meta)
        ranks.append(nodes)
        check_rank(nodes)
    files = sorted(os.path.basename(p) for p in glob.glob(folder + "/*"))
    want = [f"step.{r}.et" for r in range(plan["ranks"])] + ["comm_groups.json"]
    assert files == sorted(want), files
    groups = json.load(open(folder + "/comm_groups.json"))
    assert all(int(name) > 0 and len(set(g)) == len(g) > 1 for name, g in groups.items())
    groups["0"] = list(range(plan["ranks"]))
    operations = pair(ranks, groups)

    for nodes, by_rank in zip(ranks, plan["by_rank"]):
        sent = counted = flops = 0
        for n in nodes:
            a = n.attr
            sent += a.get("sent_bytes", 0)
            flops += a.get("num_ops", 0)
            if n.type == SEND:
                counted += a["comm_size"]
            elif n.type == COLLECTIVE:
                members = groups[a.get("pg_name", "0")]
                counted += SENT[a["comm_type"]](a["comm_size"], len(members))
        steps = plan["steps"]
        assert abs(sent / steps - by_rank["sent_bytes"]) < 1e-6, (sent, by_rank["sent_bytes"])
        # one rank's slices may be longer or shorter than their mean
        assert abs(counted - sent) <= 0.01 * sent + 64 * len(nodes), (counted, sent)
        assert flops >= steps * by_rank["product_flops"] > 0, (flops, by_rank["product_flops"])

    replay(ranks, operations)
    for meta, nodes, by_rank in zip(metas, ranks, plan["by_rank"]):
        for n in nodes:
            assert abs(n.begin - n.start) <= 1, (n.rank, n.id, n.name, n.begin, n.start)
        ends = [n.end for n in nodes if n.name == "end of the step"]
        begin = nodes[0].end if nodes[0].id == 0 else 0
        assert len(ends) == meta["steps"] == plan["steps"], ends
        assert abs(ends[-1] - begin - 1e6 * meta["seconds"]) <= 1, (ends, begin, meta)
        assert abs(meta["seconds"] / meta["steps"] / by_rank["step_s"] - 1) < 1e-6, by_rank
        # what ends after the step nobody has waited for in it
        awaited = {d for n in nodes if n.type == COMPUTE for d in n.deps}
        assert all(n.end <= ends[-1] for n in nodes if n.id in awaited)
    print(f"{plan['stack']}: {sum(map(len, ranks))} nodes, {len(operations)} operations")


main(*sys.argv[1:])
