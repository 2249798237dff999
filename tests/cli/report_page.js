// SPDX-License-Identifier: Apache-2.0
// Measures a page as a browser has laid it out: lines of "NAME VALUE" in an element of its
// own, which the test reads from the document. The page itself has no script.
"use strict";
const lines = [];
const say = (name, value) => lines.push(`${name} ${value}`);
const box = (e) => e.getBoundingClientRect();
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const root = document.documentElement;

say("width", window.innerWidth);
say("overflow", Math.max(0, root.scrollWidth - root.clientWidth));
say("height", window.innerHeight);
say("page", root.scrollHeight);
say("verdict", Math.ceil(box(document.querySelector(".said")).bottom));
say("verdicts", Math.ceil(Math.max(...all(".said").map((e) => box(e).bottom))));
say("paper", getComputedStyle(document.body).backgroundColor.replace(/ /g, ""));
say("ink", getComputedStyle(document.body).color.replace(/ /g, ""));

// what is wider than the page without a frame that scrolls
const scrolls = (e) => e && (getComputedStyle(e).overflowX === "auto" || scrolls(e.parentElement));
for (const e of all("body *"))
    if (!e.closest("svg") && box(e).right > root.clientWidth + 1 && !scrolls(e))
        say("wide", `${e.tagName}.${e.className}`);

// tables that go on at a side: rows keep their names in sight there
for (const wide of all(".wide").filter((e) => e.scrollWidth > e.clientWidth + 1)) {
    say("scrolled", wide.scrollWidth);
    if (getComputedStyle(wide).backgroundImage.split("gradient").length < 5)
        say("shade", "no shade at the sides");
    wide.scrollLeft = wide.scrollWidth;
    for (const name of all("th:first-child", wide))
        if (Math.abs(box(name).left - box(wide).left) > 1)
            say("lost", name.textContent);
    wide.scrollLeft = 0;
}

// short names of options and runs that are broken, as "data.for" and "mat"
for (const name of all("tbody th").filter((e) => /^[a-z_.]{1,20}$/.test(e.textContent))) {
    const range = document.createRange();
    range.selectNodeContents(name);
    if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1)
        say("broken", name.textContent);
}

// letters as they are on the screen, in px; boxes of the schedule
const sizes = all("svg text").map((e) => {
    const svg = e.ownerSVGElement;
    return parseFloat(getComputedStyle(e).fontSize) * box(svg).width / svg.viewBox.baseVal.width;
});
say("letters", Math.min(...sizes, ...all("p,td,th,dd,dt").map((e) =>
    parseFloat(getComputedStyle(e).fontSize))).toFixed(1));
const steps = all("svg.gantt").filter((svg) => svg.querySelector("text.box"));
const boxes = steps.flatMap((svg) => all("g > rect.bar", svg)).map((e) => box(e).height);
say("schedules", steps.length);
if (boxes.length)
    say("box", Math.min(...boxes).toFixed(1));

// texts that lie on each other or outside of their picture
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
for (const svg of all("svg")) {
    const frame = box(svg);
    const texts = all("text", svg).filter((e) => e.textContent && !e.classList.contains("box"));
    for (const [i, e] of texts.entries()) {
        if (box(e).right > frame.right + 1 || box(e).left < frame.left - 1 ||
            box(e).bottom > frame.bottom + 1)
            say("cut", `"${e.textContent}" in "${svg.querySelector("title").textContent}"`);
        for (const other of texts.slice(0, i))
            if (meet(box(e), box(other)))
                say("overlap", `"${e.textContent}" "${other.textContent}" in ` +
                    `"${svg.querySelector("title").textContent}"`);
    }
}

// rows of the stacked bars: parts touch, and end where the row's number stands
const stacks = all("svg").filter((svg) =>
    svg.querySelector("title").textContent.includes("by its parts"));
say("stacks", stacks.length);
for (const svg of stacks) {
    const rows = new Map();
    for (const e of all("g > rect.bar", svg)) {
        if (e.parentElement.querySelector("title").textContent.includes("%")) {
            const y = e.getAttribute("y");
            rows.set(y, [...(rows.get(y) || []), e]);
        }
    }
    say("bars", rows.size);
    const scale = box(svg).width / svg.viewBox.baseVal.width;
    for (const row of rows.values())
        for (let i = 1; i < row.length; i++)
            if (Math.abs(box(row[i]).left - box(row[i - 1]).right) > 2 * scale)
                say("gap", row[i].parentElement.querySelector("title").textContent);
}
const colours = new Set(all("svg .bar").map((e) => {
    const style = getComputedStyle(e);
    return style.fill + style.fillOpacity + style.strokeDasharray;
}));
say("fillings", colours.size);

// texts whose colour is too near to what is behind them (WCAG 2.1, 1.4.3); of charts test_style
// looks at the palette
const colour = (text) => {
    const v = text.match(/[\d.]+(e-\d+)?/g).map(Number);
    const most = text.startsWith("color(") ? 1 : 255;
    return [v[0] / most, v[1] / most, v[2] / most, v.length > 3 ? v[3] : 1];
};
const over = (top, under) =>
    [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
const behind = (e) =>
    e ? over(colour(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [1, 1, 1, 1];
const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) =>
    sum + weight * (c[i] <= 0.03928 ? c[i] / 12.92 : ((c[i] + 0.055) / 1.055) ** 2.4), 0);
const contrast = (e) => {
    const under = behind(e);
    const text = luminance(over(colour(getComputedStyle(e).color), under));
    const [low, high] = [text, luminance(under)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
};
const texts = all("body *").filter((e) => !e.closest("svg,script") &&
    [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim()));
say("texts", texts.length);
for (const e of texts.filter((text) => contrast(text) < 4.5))
    say("faint", `${contrast(e).toFixed(2)} "${e.textContent.slice(0, 40)}"`);

const out = document.createElement("pre");
out.id = "measured";
out.textContent = "\n" + lines.map((line) => `= ${line}`).join("\n") + "\n";
document.body.append(out);
