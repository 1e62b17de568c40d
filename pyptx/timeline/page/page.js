"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const status = document.body.dataset;
  status.errors = "0";
  addEventListener("error", (event) => { status.errors = String(Number(status.errors) + 1); status.error = event.message; });

  // --- data -------------------------------------------------------------------------------------
  const D = JSON.parse($("data").textContent);
  const E = D.events, COUNT = E.begin.length;
  // In the timeline's unit, and as they are drawn: without the steps in which the open CTAs do nothing.
  const begins = Float64Array.from(E.begin), ends = Float64Array.from(E.end);
  let begin = begins, end = ends, bounds = null;
  const WAIT = D.kinds.indexOf("wait"), INSTANT = D.kinds.indexOf("instant");
  const tracks = D.tracks.map(([kind, name, group, cta, sm]) => ({ kind, name, group, cta, sm, rows: [], instants: [], y: 0, height: 0 }));
  let first = Infinity, last = -Infinity;
  const extent = () => {
    if (bounds) { first = 0; last = Math.max(1, bounds.length - 1); return; }
    first = Infinity; last = -Infinity;
    for (let e = 0; e < COUNT; e++) { first = Math.min(first, begin[e]); last = Math.max(last, end[e]); }
    if (!COUNT) { first = 0; last = 1; }
    if (last <= first) last = first + 1;
  };
  extent();
  const text = (column, e) => D.texts[E[column][e]];
  const MOST_ROWS = 24, rowOf = new Uint8Array(COUNT);

  // Spans of one row do not overlap, so that the spans at a time are found by halving.
  const byTrack = tracks.map(() => []);
  for (let e = 0; e < COUNT; e++) byTrack[E.track[e]].push(e);
  byTrack.forEach((events, t) => {
    const track = tracks[t];
    events.sort((a, b) => begin[a] - begin[b] || end[b] - end[a] || a - b);
    const used = [];
    for (const e of events) {
      if (E.kind[e] === INSTANT) { track.instants.push(e); continue; }
      let row = used.findIndex((at) => at <= begin[e]);
      if (row < 0) row = used.length < MOST_ROWS ? used.length : MOST_ROWS - 1;
      used[row] = Math.max(used[row] ?? -Infinity, end[e]);
      (track.rows[row] ??= []).push(e);
      rowOf[e] = row;
    }
    if (!track.rows.length) track.rows.push([]);
  });
  const groups = [], groupOf = new Map();
  tracks.forEach((track, t) => {
    let group = groupOf.get(track.group);
    if (!group) { groups.push(group = { name: track.group, tracks: [], open: true, y: 0, waits: 0 }); groupOf.set(track.group, group); }
    group.tracks.push(t);
    track.owner = group;
  });
  const openWaits = [];
  if (D.hangs) for (let e = 0; e < COUNT; e++) if (E.open[e] && E.kind[e] === WAIT) { openWaits.push(e); tracks[E.track[e]].owner.waits++; }
  // Marks of a kernel are spans and instants of warps alone.
  const simulated = tracks.some((track) => track.kind !== "warp") || E.kind.includes(WAIT);
  let room = simulated ? 30 : 80;
  for (const group of groups) { group.open = room > 0 || (group.waits > 0 && room > -80); room -= group.open ? group.tracks.length : 0; }

  // --- colors -----------------------------------------------------------------------------------
  const CAUSES = {
    "bytes of copies": "#e69f00", "tensor core": "#c9569a", "arrivals of other warps": "#4ba3dd", "barrier of the CTA": "#2f6fb5",
    "other CTAs of the cluster": "#9a6a4f", "groups of copies": "#d8b400", "tensor memory": "#8a63c9", "other lanes of the warp": "#8b8f98",
    "registers of the CTA's pool": "#a3a52a", "another launch": "#22a7b8", "a value that a loop polls": "#d0503f", "something else": "#6f7682",
    "loads into registers": "#b5651d", "issue slots and pipes": "#5fae7d", "banks of shared memory": "#3f8f8f",
    "instructions that are not in the cache": "#93b36b", "registers in local memory": "#a0527d",
  };
  const KINDS = { warp: ["#cfd6e1", "#4a5565"], engine: ["#3f9b6c", "#2f8a5c"], barrier: ["#8fb9c9", "#3d6a7c"], stage: ["#8fc7a3", "#2f7a4d"] };
  const FILLING = ["#f0cf7a", "#8a6d1c"];
  const MARKS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#5f7f3b"];
  let dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const hash = (name) => { let h = 7; for (const c of name) h = (h * 31 + c.codePointAt(0)) >>> 0; return h; };
  const names = [...new Set(Array.from({ length: simulated ? 0 : COUNT }, (_, e) => text("name", e)))];
  const markColor = new Map(names.map((name, n) => [name, MARKS[names.length <= MARKS.length ? n : hash(name) % MARKS.length]]));
  const color = (e) => {
    if (E.kind[e] === WAIT) return CAUSES[D.causes[E.cause[e]]] ?? "#6f7682";
    const track = tracks[E.track[e]];
    if (!simulated) return markColor.get(text("name", e));
    if (track.kind === "stage" && text("name", e) === "being filled") return FILLING[dark ? 1 : 0];
    return KINDS[track.kind][dark ? 1 : 0];
  };
  const inkCache = new Map();
  const ink = (back) => {
    let found = inkCache.get(back);
    if (!found) {
      const [r, g, b] = [1, 3, 5].map((at) => parseInt(back.slice(at, at + 2), 16));
      inkCache.set(back, found = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14171c" : "#ffffff");
    }
    return found;
  };

  // --- texts ------------------------------------------------------------------------------------
  const NEVER = "NEVER ENDS: ";
  const number = (value) => (value || 0).toLocaleString("en-US", { maximumFractionDigits: 2 });
  const unit = { order: "", cycles: " cycles", ns: " ns" }[D.unit];
  const causeOf = (e) => D.causes[E.cause[e]];
  const label = (e) => {
    const barrier = text("barrier", e), stage = E.stage[e], kind = tracks[E.track[e]].kind;
    if (E.kind[e] === WAIT) return `${E.open[e] && D.hangs ? NEVER : ""}${barrier ? `${barrier} phase ${E.phase[e]}: ${causeOf(e)}` : causeOf(e)}`;
    if (kind === "stage" || kind === "barrier") return E.phase[e] >= 0 && kind === "stage" ? `${text("name", e)} (${E.phase[e]})` : text("name", e);
    return stage >= 0 ? `${text("name", e)} [${stage}]` : text("name", e);
  };
  const waitsFor = (e) => `${E.open[e] && D.hangs ? "never ends: " : ""}waits for ${label(e).replace(NEVER, "")}`;
  const haystack = (e) => {
    const track = tracks[E.track[e]];
    return `${text("name", e)} ${text("barrier", e)} ${text("detail", e)} ${causeOf(e)} ${track.name} ${track.group} stage ${E.stage[e]} phase ${E.phase[e]} ${E.open[e] && D.hangs ? "never ends" : ""}`.toLowerCase();
  };

  // --- view -------------------------------------------------------------------------------------
  const canvas = $("canvas"), g = canvas.getContext("2d");
  const NAMES = 176, HEAD = 24, ROW = 17, SMALL_ROW = 8, GROUP = 22, BAR = 10;
  let width = 0, height = 0, total = 0, from = first, to = last, scroll = 0;
  let selected = -1, hovered = -1, matches = null, found = [], cause = null, queued = false;
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let look = {};
  const X = (time) => NAMES + (time - from) / (to - from) * (width - NAMES - BAR);
  const T = (x) => from + (x - NAMES) / (width - NAMES - BAR) * (to - from);

  // With one order of all CTAs, most steps belong to CTAs that are not shown: leave these steps out.
  let compact = D.unit === "order" && groups.length > 1;
  const at = (list, value) => { let low = 0, high = list.length; while (low < high) { const middle = (low + high) >> 1; if (list[middle] >= value) high = middle; else low = middle + 1; } return low; };
  const drawnAt = (time) => {
    if (!bounds) return time;
    const n = at(bounds, time);
    if (n === 0) return time - bounds[0];
    if (n === bounds.length) return n - 1 + time - bounds[n - 1];
    return n - (bounds[n] - time) / (bounds[n] - bounds[n - 1]);
  };
  const timeAt = (x) => {
    if (!bounds) return x;
    const n = Math.min(Math.max(Math.floor(x), 0), bounds.length - 1), next = Math.min(n + 1, bounds.length - 1);
    return x < 0 || n === next ? bounds[n] + x - n : bounds[n] + (x - n) * (bounds[next] - bounds[n]);
  };
  const arrange = () => {
    const whole = from <= first && to >= last, view = [timeAt(from), timeAt(to)];
    begin = begins; end = ends; bounds = null;
    if (compact && groups.some((group) => group.open)) {
      const seen = new Set();
      for (const group of groups) if (group.open) for (const t of group.tracks) for (const e of byTrack[t]) { seen.add(begins[e]); seen.add(ends[e]); }
      if (seen.size > 1) {
        bounds = Float64Array.from(seen).sort();
        begin = begins.map((time) => at(bounds, time)); end = ends.map((time) => at(bounds, time));
      }
    }
    extent();
    from = drawnAt(view[0]); to = drawnAt(view[1]);
    place();
    if (whole) fit(); else redraw();
  };
  const place = () => {
    let y = 0;
    for (const group of groups) {
      group.y = y; y += GROUP;
      for (const t of group.tracks) {
        const rows = Math.max(1, tracks[t].rows.length);
        tracks[t].row = rows > 4 ? SMALL_ROW : ROW;
        tracks[t].y = y; tracks[t].height = group.open ? Math.max(rows * tracks[t].row, ROW) + 3 : 0;
        y += tracks[t].height;
      }
    }
    total = y;
  };
  const clamp = () => {
    const least = Math.max((last - first) * 1e-7, D.unit === "order" ? 4 : 1e-2), most = (last - first) * 1.2;
    let span = Math.min(Math.max(to - from, least), most);
    const middle = (from + to) / 2, margin = span * 0.5;
    from = Math.min(Math.max(middle - span / 2, first - margin), last + margin - span); to = from + span;
    scroll = Math.min(Math.max(scroll, 0), Math.max(0, total + HEAD + 12 - height));
  };
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };
  const fit = () => { const margin = (last - first) * 0.02; from = first - margin; to = last + margin; redraw(); };

  // First event of a row that ends after a time.
  const after = (row, time) => {
    let low = 0, high = row.length;
    while (low < high) { const middle = (low + high) >> 1; if (end[row[middle]] > time || (end[row[middle]] === time && begin[row[middle]] === time)) high = middle; else low = middle + 1; }
    return low;
  };
  const startsAfter = (list, time) => {
    let low = 0, high = list.length;
    while (low < high) { const middle = (low + high) >> 1; if (begin[list[middle]] >= time) high = middle; else low = middle + 1; }
    return low;
  };
  const faint = (e) => (matches && !matches[e]) || (cause !== null && !(E.kind[e] === WAIT && E.cause[e] === cause));

  let drawn = 0;
  const draw = () => {
    queued = false; clamp(); drawn = 0;
    const ratio = devicePixelRatio || 1;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = look.back; g.fillRect(0, 0, width, height);
    g.font = "11px system-ui, sans-serif"; g.textBaseline = "middle";
    g.save(); g.beginPath(); g.rect(0, HEAD, width, height - HEAD); g.clip();
    const top = scroll, bottom = scroll + height - HEAD;
    for (const group of groups) {
      const y = group.y - scroll + HEAD;
      if (group.y + GROUP >= top && group.y <= bottom) drawGroup(group, y);
      if (group.open) for (const t of group.tracks) {
        const track = tracks[t];
        if (track.y + track.height >= top && track.y <= bottom) drawTrack(track, track.y - scroll + HEAD);
      }
    }
    drawLink();
    g.restore();
    drawAxis();
    const inside = height - HEAD;
    if (total > inside) {
      const size = Math.max(24, inside * inside / total);
      g.fillStyle = look.line; g.fillRect(width - BAR + 2, HEAD + (inside - size) * scroll / Math.max(1, total + 12 - inside), BAR - 4, size);
    }
    status.drawn = String(drawn); status.events = String(COUNT); status.tracks = String(tracks.length); status.selected = String(selected);
    status.from = String(from); status.to = String(to);
  };
  const drawGroup = (group, y) => {
    g.fillStyle = look.group; g.fillRect(0, y, width, GROUP - 1);
    g.fillStyle = look.text; g.font = "bold 11px system-ui, sans-serif";
    g.fillText(`${group.open ? "▾" : "▸"} ${group.name}${group.open ? "" : ` (${group.tracks.length} tracks)`}`, 6, y + GROUP / 2);
    if (group.waits) { g.fillStyle = look.warn; g.fillText(`${group.waits} wait${group.waits > 1 ? "s" : ""} never end${group.waits > 1 ? "" : "s"}`, NAMES + 6, y + GROUP / 2); }
    g.font = "11px system-ui, sans-serif";
  };
  const drawTrack = (track, y) => {
    g.strokeStyle = look.line; g.lineWidth = 1; g.beginPath(); g.moveTo(0, y + track.height - 0.5); g.lineTo(width, y + track.height - 0.5); g.stroke();
    g.save(); g.beginPath(); g.rect(NAMES, y, width - NAMES - BAR, track.height); g.clip();
    track.rows.forEach((row, r) => drawRow(row, y + 1 + r * track.row, track.row));
    drawInstants(track, y);
    g.restore();
    g.fillStyle = look.back; g.fillRect(0, y, NAMES - 1, track.height - 1);
    g.fillStyle = track.kind === "warp" ? look.text : look.weak;
    g.fillText(cut(track.name, NAMES - 26), 20, y + 1 + ROW / 2);
    g.strokeStyle = look.line; g.beginPath(); g.moveTo(NAMES - 0.5, y); g.lineTo(NAMES - 0.5, y + track.height); g.stroke();
  };
  const cut = (words, room) => {
    if (room < 14) return "";
    if (g.measureText(words).width <= room) return words;
    let length = Math.min(words.length, Math.floor(room / 4));
    while (length > 1 && g.measureText(words.slice(0, length) + "…").width > room) length--;
    return length > 1 ? words.slice(0, length) + "…" : "";
  };
  const drawRow = (row, y, tall) => {
    const edge = width - BAR, per = (to - from) / (width - NAMES - BAR);
    // Neighbors of less than a pixel and of one color are drawn together.
    let start = 0, stop = -9, shade = "", alpha = 1;
    const flush = () => { if (stop > start) { g.globalAlpha = alpha; g.fillStyle = shade; g.fillRect(start, y, stop - start, tall - 1.5); drawn++; } stop = -9; };
    for (let n = after(row, from); n < row.length && begin[row[n]] <= to;) {
      const e = row[n], left = X(begin[e]), right = X(end[e]);
      if (right - left < 1 && e !== selected) {
        // Of the events within one pixel, the first stands for all; a wait that never ends is never among them.
        const own = color(e), opacity = faint(e) ? 0.15 : 1;
        if (own !== shade || opacity !== alpha || left > stop + 1) { flush(); start = left; shade = own; alpha = opacity; }
        stop = left + 1.5;
        n = Math.max(n + 1, after(row, begin[e] + per));
        continue;
      }
      flush();
      drawSpan(e, Math.max(left, NAMES - 2), Math.min(right, edge + 2), y, tall); n++;
    }
    flush();
    g.globalAlpha = 1;
  };
  const drawSpan = (e, left, right, y, tall) => {
    const room = Math.max(right - left - (right - left > 3 ? 1 : 0), 1), back = color(e);
    drawn++;
    g.globalAlpha = faint(e) ? 0.15 : 1;
    g.fillStyle = back; g.fillRect(left, y, room, tall - 1.5);
    if (E.kind[e] === WAIT && room > 4 && !faint(e)) {
      g.save(); g.beginPath(); g.rect(left, y, room, tall - 1.5); g.clip();
      g.strokeStyle = "#ffffff55"; g.lineWidth = 2; g.beginPath();
      for (let x = left - tall - (left % 9); x < left + room; x += 9) { g.moveTo(x, y + tall); g.lineTo(x + tall, y); }
      g.stroke(); g.restore();
    }
    if (E.open[e] && D.hangs && E.kind[e] === WAIT) { g.strokeStyle = look.warn; g.lineWidth = 2; g.strokeRect(left + 1, y + 1, room - 2, tall - 4); }
    if (e === selected || e === hovered) { g.strokeStyle = e === selected ? look.focus : look.text; g.lineWidth = 2; g.strokeRect(left + 0.5, y + 0.5, Math.max(room - 1, 2), tall - 3); }
    if (room > 26 && tall === ROW && !faint(e)) {
      const words = cut(label(e), room - 8);
      if (words) {
        if (E.kind[e] === WAIT) { g.fillStyle = back; g.fillRect(left + 2, y + 2, Math.min(g.measureText(words).width + 4, room - 4), ROW - 6); }
        g.fillStyle = ink(back); g.fillText(words, left + 4, y + (ROW - 2) / 2 + 0.5);
      }
    }
  };
  const drawInstants = (track, y) => {
    const list = track.instants, low = y + track.height - 3;
    let before = -9;
    for (let n = startsAfter(list, from); n < list.length && begin[list[n]] <= to; n++) {
      const e = list[n], x = X(begin[e]);
      if (x - before < 2 && e !== selected) continue;
      const dense = x - before < 6 && e !== selected && e !== hovered;
      before = x; drawn++;
      g.globalAlpha = faint(e) ? 0.15 : 1;
      g.fillStyle = e === selected ? look.focus : simulated ? (CAUSES[causeOf(e)] ?? look.text) : color(e);
      if (dense) { g.fillRect(x - 1, low - 6, 2, 6); continue; }
      const size = e === selected || e === hovered ? 6 : 4;
      g.beginPath(); g.moveTo(x, low - 2 * size); g.lineTo(x + size * 0.8, low); g.lineTo(x - size * 0.8, low); g.fill();
      g.strokeStyle = look.back; g.lineWidth = 0.75; g.stroke();
    }
    g.globalAlpha = 1;
  };
  const middleOf = (e) => tracks[E.track[e]].owner.open ? tracks[E.track[e]].y - scroll + HEAD + (rowOf[e] + 0.5) * tracks[E.track[e]].row : tracks[E.track[e]].owner.y - scroll + HEAD + GROUP / 2;
  const drawLink = () => {
    if (selected < 0 || E.by[selected] < 0) return;
    const by = E.by[selected], x1 = X(Math.min(end[by], end[selected])), y1 = middleOf(by), x2 = X(end[selected]), y2 = middleOf(selected);
    g.strokeStyle = look.focus; g.lineWidth = 1.5; g.setLineDash([4, 3]); g.beginPath(); g.moveTo(x1, y1);
    g.bezierCurveTo(x1 + 40, y1, x2 - 40, y2, x2, y2); g.stroke(); g.setLineDash([]);
    g.fillStyle = look.focus; g.beginPath(); g.arc(x1, y1, 3, 0, 7); g.fill();
  };
  const drawAxis = () => {
    g.fillStyle = look.panel; g.fillRect(0, 0, width, HEAD);
    g.strokeStyle = look.line; g.lineWidth = 1; g.beginPath(); g.moveTo(0, HEAD - 0.5); g.lineTo(width, HEAD - 0.5); g.stroke();
    g.fillStyle = look.weak; g.fillText(D.unit === "order" ? (bounds ? "order (C: idle steps)" : "simulated order") : D.unit, 8, HEAD / 2);
    const rough = (to - from) * 110 / (width - NAMES - BAR), power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    if (D.unit === "order") step = Math.max(1, step);
    g.textAlign = "center";
    for (let n = Math.ceil(from / step); n * step <= to; n++) {
      const x = X(n * step);
      if (x < NAMES + 8 || x > width - BAR - 12) continue;
      g.fillStyle = look.weak; g.fillText(number(bounds ? Math.round(timeAt(n * step)) : n * step), x, HEAD / 2 - 1);
      g.strokeStyle = look.line; g.beginPath(); g.moveTo(x, HEAD - 5); g.lineTo(x, HEAD); g.stroke();
    }
    g.textAlign = "left";
  };

  // --- finding the event at a point -----------------------------------------------------------------
  const trackAt = (y) => {
    const at = y - HEAD + scroll;
    for (const group of groups) {
      if (at >= group.y && at < group.y + GROUP) return { group };
      if (group.open) for (const t of group.tracks) if (at >= tracks[t].y && at < tracks[t].y + tracks[t].height) return { track: tracks[t], row: Math.floor((at - tracks[t].y - 1) / tracks[t].row), low: at - tracks[t].y > tracks[t].height - 12 };
    }
    return null;
  };
  const eventAt = (x, y) => {
    if (x < NAMES || y < HEAD) return -1;
    const at = trackAt(y);
    if (!at || !at.track) return -1;
    const time = T(x), near = T(x + 4) - time;
    let best = -1, distance = Infinity;
    if (at.low || !at.track.rows.some((row) => row.length)) {
      const list = at.track.instants;
      for (let n = startsAfter(list, time - near); n < list.length && begin[list[n]] <= time + near; n++) {
        const away = Math.abs(begin[list[n]] - time);
        if (away < distance) { distance = away; best = list[n]; }
      }
      if (best >= 0) return best;
    }
    const row = at.track.rows[Math.min(Math.max(at.row, 0), at.track.rows.length - 1)];
    for (let n = after(row, time - near); n < row.length && begin[row[n]] <= time + near; n++) {
      const e = row[n], away = time < begin[e] ? begin[e] - time : time > end[e] ? time - end[e] : 0;
      if (away < distance) { distance = away; best = e; }
    }
    return best;
  };

  // --- details ------------------------------------------------------------------------------------
  const make = (tag, words, more = {}) => Object.assign(document.createElement(tag), { textContent: words }, more);
  const facts = (e) => {
    const track = tracks[E.track[e]], barrier = text("barrier", e), length = ends[e] - begins[e];
    const rows = [["track", `${track.name}, ${track.group}${track.sm >= 0 && !track.group.includes("SM") ? ` (SM ${track.sm})` : ""}`]];
    if (E.kind[e] === INSTANT) rows.push(["at", number(begins[e]) + unit]);
    else rows.push(["from, to", `${number(begins[e])} to ${E.open[e] ? "the end of the run" : number(ends[e])}${unit}`], ["length", E.open[e] ? "had not ended when the run ended" : `${number(length)}${unit || " steps"}`]);
    if (E.kind[e] === WAIT) rows.push(["waits for", causeOf(e)]);
    else if (E.cause[e]) rows.push([E.kind[e] === INSTANT ? "counts as" : "completed by", causeOf(e)]);
    if (barrier) rows.push(["barrier", `${barrier}${E.phase[e] >= 0 ? `, phase ${E.phase[e]} (parity ${E.phase[e] & 1})` : ""}`]);
    if (E.stage[e] >= 0) rows.push(["stage", String(E.stage[e])]);
    if (text("detail", e)) rows.push(["detail", text("detail", e)]);
    return rows;
  };
  const lineText = (l) => { const [file, line, name] = D.lines[l]; return `${file.split("/").pop()}:${line}${name ? ` in ${name}` : ""}`; };
  const showSource = (box, chain, chosen) => {
    box.replaceChildren();
    const path = make("p", "", { className: "chain" });
    chain.forEach((l, n) => {
      if (n) path.append(" ← ");
      const button = make("button", lineText(l), { title: D.lines[l][0] });
      button.setAttribute("aria-current", String(n === chosen));
      button.onclick = () => showSource(box, chain, n);
      path.append(button);
    });
    box.append(path);
    const [file, line] = D.lines[chain[chosen]], near = D.excerpts[file] ?? {}, pre = document.createElement("pre");
    for (let n = line - 9; n <= line + 9; n++) if (near[n] !== undefined) {
      const row = make("span", "", { className: n === line ? "here" : "" });
      row.append(make("em", String(n).padStart(5) + "  "), near[n] || " ");
      pre.append(row);
    }
    if (!pre.childElementCount) pre.append(make("span", "The text of this file could not be read when the page was written."));
    box.append(pre);
    const here = pre.querySelector(".here");
    if (here) box.scrollTop = Math.max(0, here.offsetTop - box.offsetTop - 90);
  };
  const showDetails = () => {
    const box = $("details");
    box.replaceChildren();
    box.classList.toggle("open", selected >= 0);
    status.line = "";
    if (selected < 0) { box.append(make("p", "Click an event for its details and its source line. Keys: ?", { className: "hint" })); return; }
    const left = make("div", "", { className: "facts" }), list = document.createElement("dl"), e = selected;
    left.append(make("h2", E.kind[e] === WAIT ? waitsFor(e) : text("name", e)));
    for (const [name, value] of facts(e)) list.append(make("dt", name), make("dd", value));
    left.append(list);
    if (E.by[e] >= 0) {
      const by = E.by[e], button = make("button", `${E.kind[e] === WAIT ? "ended" : "completed"} by ${text("name", by)} on ${tracks[E.track[by]].name} (B)`);
      button.onclick = () => select(by, true);
      left.append(button);
    }
    box.append(left);
    const chain = [];
    for (let l = E.line[e]; l >= 0; l = D.lines[l][3]) chain.push(l);
    if (chain.length) {
      const right = make("div", "", { className: "source" });
      box.append(right);
      showSource(right, chain, 0);
      status.line = `${D.lines[chain[0]][0]}:${D.lines[chain[0]][1]}`;
    }
  };
  const select = (e, reveal) => {
    selected = e;
    if (e >= 0 && reveal) {
      const track = tracks[E.track[e]];
      if (!track.owner.open) { track.owner.open = true; arrange(); }
      const inside = height - HEAD;
      if (track.y < scroll || track.y + track.height > scroll + inside) scroll = track.y - inside / 2;
      const span = to - from;
      if (begin[e] > to || end[e] < from || X(end[e]) - X(begin[e]) < 2 && E.kind[e] !== INSTANT) {
        const wanted = Math.min(span, Math.max((end[e] - begin[e]) * 40, D.unit === "order" ? 60 : 1));
        const middle = Math.min((begin[e] + end[e]) / 2, begin[e] + wanted / 3);
        from = middle - wanted / 2; to = middle + wanted / 2;
      }
    }
    showDetails(); redraw();
  };

  // --- search and legend --------------------------------------------------------------------------
  let timer = 0;
  const search = (words) => {
    const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
    found = [];
    if (!parts.length) matches = null;
    else {
      matches = new Uint8Array(COUNT);
      for (let e = 0; e < COUNT; e++) { const hay = haystack(e); if (parts.every((part) => hay.includes(part))) { matches[e] = 1; found.push(e); } }
      found.sort((a, b) => begins[a] - begins[b] || a - b);
    }
    $("matches").textContent = matches ? `${number(found.length)} found` : "";
    status.matches = String(found.length);
    redraw();
  };
  const step = (by) => {
    if (!found.length) return;
    let n = found.indexOf(selected);
    if (n < 0) { const since = selected >= 0 ? begins[selected] : timeAt(from); n = found.findIndex((e) => begins[e] >= since); n = by > 0 ? n - 1 : n; if (n < -1) n = found.length - 1; }
    n = (n + by + found.length) % found.length;
    select(found[n], true);
    $("matches").textContent = `${number(n + 1)} of ${number(found.length)}`;
  };
  const drawLegend = () => {
    const box = $("legend");
    box.replaceChildren();
    const counts = new Map();
    for (let e = 0; e < COUNT; e++) if (E.kind[e] === WAIT) counts.set(E.cause[e], (counts.get(E.cause[e]) ?? 0) + 1);
    if (counts.size) box.append("Waits for:");
    for (const [number_, count] of [...counts].sort((a, b) => a[0] - b[0])) {
      const button = document.createElement("button"), swatch = document.createElement("i");
      swatch.style.background = CAUSES[D.causes[number_]] ?? "#6f7682";
      button.append(swatch, `${D.causes[number_]} (${number(count)})`);
      button.setAttribute("aria-pressed", String(cause === number_));
      button.onclick = () => { cause = cause === number_ ? null : number_; drawLegend(); redraw(); };
      box.append(button);
    }
    const others = simulated
      ? [["warp runs", KINDS.warp[dark ? 1 : 0], "warp"], ["engine", KINDS.engine[dark ? 1 : 0], "engine"], ["phase of a barrier", KINDS.barrier[dark ? 1 : 0], "barrier"], ["stage being filled", FILLING[dark ? 1 : 0], "stage"], ["stage filled, being read", KINDS.stage[dark ? 1 : 0], "stage"]].filter((each) => tracks.some((track) => track.kind === each[2]))
      : [...markColor].slice(0, 12);
    for (const [name, back] of others) { const span = document.createElement("span"), swatch = document.createElement("i"); swatch.style.background = back; span.append(swatch, name); box.append(span); }
  };
  const banner = () => {
    const box = $("banner"), notes = D.notes ?? [];
    if (D.dropped) notes.unshift(`${number(D.dropped)} events were dropped: there was no room for them.`);
    if (!openWaits.length && !notes.length) return;
    box.hidden = false;
    if (openWaits.length) {
      box.append(make("b", `${openWaits.length} wait${openWaits.length > 1 ? "s" : ""} never end${openWaits.length > 1 ? "" : "s"}`));
      const rank = (e) => causeOf(e) === "bytes of copies" ? 0 : text("barrier", e) ? 1 : 2;
      for (const e of [...openWaits].sort((a, b) => rank(a) - rank(b) || a - b).slice(0, 8)) {
        const track = tracks[E.track[e]], button = make("button", `${track.group} ${track.name} waits for ${label(e).replace(NEVER, "")}`);
        button.onclick = () => { select(e, true); canvas.focus(); };
        box.append(button);
      }
      if (openWaits.length > 8) box.append(make("span", `and ${openWaits.length - 8} more`));
    }
    if (notes.length) {
      const more = document.createElement("details");
      more.open = !openWaits.length && notes.length < 3;
      more.append(make("summary", notes.length === 1 ? notes[0].split("\n")[0].slice(0, 160) : `${notes.length} notes and findings`));
      for (const note of notes) more.append(make("pre", note));
      box.append(more);
    }
  };

  // --- input --------------------------------------------------------------------------------------
  const zoom = (factor, at) => { const time = at === undefined ? (from + to) / 2 : T(at); from = time - (time - from) * factor; to = time + (to - time) * factor; redraw(); };
  const pan = (part) => { const by = (to - from) * part; from += by; to += by; redraw(); };
  const theme = (value) => {
    dark = value; document.documentElement.dataset.theme = dark ? "dark" : "light";
    look = { back: style("--back"), panel: style("--panel"), text: style("--text"), weak: style("--weak"), line: style("--line"), focus: style("--focus"), group: style("--group"), warn: dark ? "#ff6b5e" : "#c1190b" };
    drawLegend(); redraw();
  };
  const toggleGroups = () => { const open = !groups.every((group) => group.open); for (const group of groups) group.open = open; arrange(); };
  const toggleCompact = () => { if (D.unit === "order") { compact = !compact; arrange(); } };
  let press = null;
  const point = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x] = point(event), amount = event.deltaY || event.deltaX;
    if (x < NAMES || event.ctrlKey || event.altKey) { scroll += amount; redraw(); }
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(amount / 1000);
    else zoom(Math.exp(amount / 500), x);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { press = { at: point(event), from, to, scroll, moved: false, bar: point(event)[0] > width - BAR }; try { canvas.setPointerCapture(event.pointerId); } catch { /* the pointer is not active */ } });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = point(event);
    if (press) {
      const dx = x - press.at[0], dy = y - press.at[1];
      if (Math.abs(dx) + Math.abs(dy) > 4) press.moved = true;
      if (press.bar) scroll = press.scroll + dy * (total / Math.max(1, height - HEAD));
      else if (press.moved) { const by = dx / (width - NAMES - BAR) * (press.to - press.from); from = press.from - by; to = press.to - by; scroll = press.scroll - dy; }
      redraw(); return;
    }
    hover(x, y);
  });
  canvas.addEventListener("pointerup", (event) => {
    const [x, y] = point(event), was = press;
    press = null;
    if (!was || was.moved || was.bar) return;
    const at = trackAt(y);
    if (at && at.group && y > HEAD) { at.group.open = !at.group.open; arrange(); return; }
    select(eventAt(x, y), false);
  });
  canvas.addEventListener("pointerleave", () => hover(-1, -1));
  canvas.addEventListener("dblclick", (event) => { const e = eventAt(...point(event)); if (e >= 0) { select(e, false); zoomTo(e); } });
  const hover = (x, y) => {
    const e = x < 0 ? -1 : eventAt(x, y), tip = $("tip");
    if (e !== hovered) { hovered = e; redraw(); }
    tip.hidden = e < 0;
    if (e < 0) return;
    tip.replaceChildren(make("b", label(e)), facts(e).slice(1).map(([name, value]) => `${name}: ${value}`).join("\n") + (E.line[e] >= 0 ? `\n${lineText(E.line[e])}` : ""));
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, width - box.width - 6))}px`;
    tip.style.top = `${y + 18 + box.height > height ? Math.max(2, y - box.height - 10) : y + 18}px`;
  };
  const zoomTo = (e) => { const span = Math.max((end[e] - begin[e]) * 1.6, D.unit === "order" ? 8 : 0.05), middle = (begin[e] + end[e]) / 2; from = middle - span / 2; to = middle + span / 2; redraw(); };
  const along = (by) => {
    if (selected < 0) { const group = groups.find((each) => each.open && each.tracks.some((t) => byTrack[t].length)); if (group) select(byTrack[group.tracks.find((t) => byTrack[t].length)][0], true); return; }
    const list = byTrack[E.track[selected]], n = list.indexOf(selected) + by;
    if (n >= 0 && n < list.length) select(list[n], true);
  };
  const across = (by) => {
    if (selected < 0) { along(1); return; }
    const time = begin[selected];
    for (let t = E.track[selected] + by; t >= 0 && t < tracks.length; t += by) {
      if (!tracks[t].owner.open || !byTrack[t].length) continue;
      const n = startsAfter(byTrack[t], time + 1e-9);
      select(byTrack[t][Math.max(0, n - 1)], true);
      return;
    }
  };
  const keys = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), a: () => pan(-0.15), d: () => pan(0.15),
    "+": () => zoom(0.7), "=": () => zoom(0.7), w: () => zoom(0.7), "-": () => zoom(1 / 0.7), s: () => zoom(1 / 0.7),
    PageUp: () => { scroll -= height * 0.8; redraw(); }, PageDown: () => { scroll += height * 0.8; redraw(); },
    Home: fit, ",": () => along(-1), ".": () => along(1), g: toggleGroups, c: toggleCompact,
    o: () => { if (selected >= 0) { const owner = tracks[E.track[selected]].owner; owner.open = !owner.open; arrange(); } },
    t: () => theme(!dark),
    z: () => { if (selected >= 0) zoomTo(selected); }, b: () => { if (selected >= 0 && E.by[selected] >= 0) select(E.by[selected], true); },
    "/": () => $("search").focus(), "?": () => $("keys").showModal(),
    Escape: () => { $("search").value = ""; search(""); cause = null; drawLegend(); select(-1); },
  };
  addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
    const onCanvas = event.target === canvas || event.target === document.body;
    let act = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const by = event.key === "ArrowUp" ? -1 : 1;
      act = event.shiftKey ? () => across(by) : () => { scroll += by * 2 * ROW; redraw(); };
    }
    if (!act || (!onCanvas && event.key.length > 1 && event.key !== "Escape")) return;
    event.preventDefault(); act();
  });
  $("search").addEventListener("input", (event) => { clearTimeout(timer); timer = setTimeout(() => search(event.target.value), 120); });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") { clearTimeout(timer); search(event.target.value); step(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { event.target.value = ""; search(""); canvas.focus(); }
  });
  $("next").onclick = () => step(1); $("previous").onclick = () => step(-1); $("fit").onclick = fit;
  $("groups").onclick = toggleGroups; $("idle").onclick = toggleCompact; $("idle").hidden = D.unit !== "order"; $("theme").onclick = () => theme(!dark); $("help").onclick = () => $("keys").showModal();

  // --- start --------------------------------------------------------------------------------------
  const resize = () => {
    const box = $("view").getBoundingClientRect(), ratio = devicePixelRatio || 1;
    if (width === box.width && height === box.height && canvas.width === Math.round(width * ratio)) return;
    width = box.width; height = box.height;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    draw();
  };
  $("title").textContent = D.title; $("axis").textContent = D.axis;
  banner();
  const hashed = new URLSearchParams(location.hash.slice(1));
  theme(hashed.has("theme") ? hashed.get("theme") === "dark" : dark);
  new ResizeObserver(resize).observe($("view"));
  if (hashed.get("idle") === "1") compact = false;
  fit(); arrange(); resize();
  if (hashed.has("from") && hashed.has("to")) { from = drawnAt(Number(hashed.get("from"))); to = drawnAt(Number(hashed.get("to"))); }
  if (hashed.has("search")) { $("search").value = hashed.get("search"); search(hashed.get("search")); }
  if (hashed.has("event")) select(Number(hashed.get("event")), true);
  draw();
})();
