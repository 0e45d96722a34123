// What a reader with scripts gets beyond the figures: the values under the pointer, and for curves
// a zoom, a logarithmic axis, smoothing and an axis of time. It reads what the figures hold (see
// report/svg/svg_parts.h) and loads nothing. Comments and indentation are not part of the page.
(function () {
  'use strict';
  var NS = 'http://www.w3.org/2000/svg', doc = document;
  function all(root, what) { return [].slice.call(root.querySelectorAll(what)); }
  function make(parent, name, attributes, text) {
    var e = parent.namespaceURI === NS ? doc.createElementNS(NS, name) : doc.createElement(name);
    for (var k in attributes) e.setAttribute(k, attributes[k]);
    if (text !== undefined) e.textContent = text;
    return parent.appendChild(e);
  }
  // A number with the digits that its resolution allows.
  function show(v, resolution) {
    var a = Math.abs(v), digits = resolution > 0 ? Math.max(0, Math.min(8, -Math.ceil(Math.log10(resolution)))) : 4;
    if (v !== 0 && (a < 1e-3 || a >= 1e6)) return String(Number(v.toPrecision(3)));
    return String(Number(v.toFixed(digits)));
  }

  // ---- the box beside the pointer ----
  var tip = make(doc.body, 'div', {'class': 'tip', role: 'status', hidden: ''});
  function hide() { tip.hidden = true; all(doc, '.dot').forEach(function (d) { d.remove(); }); }
  function place(x, y, lines) {
    tip.textContent = '';
    lines.forEach(function (l) {
      var row = make(tip, 'div', l.bold ? {'class': 'b'} : {});
      if (l.ink) make(row, 'i', {}).style.background = l.ink;
      row.appendChild(doc.createTextNode(l.text));
    });
    tip.hidden = false;
    var w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - w - 4)) + 'px';
    tip.style.top = (y + 18 + h > innerHeight ? Math.max(4, y - h - 12) : y + 18) + 'px';
  }
  function heading(svg) {
    var f = svg.closest('figure'), h = f && f.querySelector('h3');
    return h ? [{text: h.firstChild.textContent, bold: true}] : [];
  }
  // From the window to the coordinates of an element.
  function local(e) {
    var m = e.getScreenCTM().inverse();
    return function (x, y) { return [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]; };
  }

  // ---- maps: the values of cells: two digits, a point for the lowest, a blank for none ----
  var DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  function decode(text) {
    var out = [];
    for (var i = 0; i < text.length; i++) {
      if (text[i] === ' ' || text[i] === '.') out.push(text[i] === ' ' ? -1 : 0);
      else { out.push(DIGITS.indexOf(text[i]) * 64 + DIGITS.indexOf(text[i + 1])); i++; }
    }
    return out;
  }
  function names(g, key) { var t = g.getAttribute(key); return t === null ? null : t.split('\n'); }
  function cell(g, x, y) {
    if (!g.cells) g.cells = decode(g.getAttribute('data-v'));
    var at = local(g)(x, y), h = g.getAttribute('data-h').split(' ').map(Number), rows = h[0], columns = h[1];
    var c = Math.floor(at[0]), r = Math.floor(at[1] + 0.5);
    if (c < 0 || r < 0 || c >= columns || r >= rows) return null;
    if (h[2]) r = rows - 1 - r;
    var q = g.cells[r * columns + c], lo = h[3], hi = h[4];
    var label = names(g, 'data-l'), row = names(g, 'data-r'), column = names(g, 'data-c');
    var lines = heading(g.ownerSVGElement), where = [];
    where.push((label[1] + ' ' + (row ? row[r] : r)).trim());
    where.push((label[0] + ' ' + (column ? column[c] : c)).trim());
    lines.push({text: where.join(', ')});
    var left = c, groups = names(g, 'data-g') || [];
    for (var i = 0; i < groups.length; i++) {
      var cut = groups[i].lastIndexOf(' '), n = Number(groups[i].slice(cut + 1));
      if (left < n) { if (cut > 0) lines.push({text: groups[i].slice(0, cut)}); break; }
      left -= n;
    }
    lines.push({text: q < 0 ? 'no value' : ((label[2] || 'value') + ' ' + show(lo + (hi - lo) * q / 4095, (hi - lo) / 4095))});
    return lines;
  }

  // ---- curves ----
  // Seconds at steps, for each run: "step,seconds step,seconds ...".
  var times = [], holder = doc.getElementById('times');
  if (holder) holder.textContent.trim().split('\n').forEach(function (line) {
    times.push(line.trim().split(' ').map(function (p) { return p.split(',').map(Number); }));
  });
  function seconds(run, step) {
    var t = times[run], i = 1;
    if (!t || t.length < 2) return step;
    while (i < t.length - 1 && t[i][0] < step) i++;
    return t[i - 1][1] + (t[i][1] - t[i - 1][1]) * (step - t[i - 1][0]) / (t[i][0] - t[i - 1][0] || 1);
  }
  function forward(s, v) {
    var t = s.log ? Math.log(v / s.lo) / Math.log(s.hi / s.lo) : (v - s.lo) / (s.hi - s.lo);
    return s.from + t * (s.to - s.from);
  }
  function backward(s, p) {
    var t = (p - s.from) / (s.to - s.from);
    return s.log ? s.lo * Math.pow(s.hi / s.lo, t) : s.lo + t * (s.hi - s.lo);
  }
  // Resolution of a scale near v: a hundredth of a unit of the figure.
  function grain(s, v) {
    var n = 100 * Math.abs(s.to - s.from);
    return s.log ? Math.abs(v) * Math.log(s.hi / s.lo) / n : (s.hi - s.lo) / n;
  }
  // The points of a path of M, l and Z; a break between two lines is null.
  function points(d) {
    var out = [], x = 0, y = 0, re = /([MlZ])|(-?[\d.]+)/g, m, command = 'M', n = [];
    while ((m = re.exec(d))) {
      if (m[1]) { command = m[1]; n = []; continue; }
      n.push(Number(m[2]));
      if (n.length < 2) continue;
      if (command === 'M') { if (out.length) out.push(null); x = n[0]; y = n[1]; } else { x += n[0]; y += n[1]; }
      out.push([x / 100, y / 100]);
      n = [];
    }
    return out;
  }
  function nice(s, fixed) {
    var want = 5, span = (s.hi - s.lo) / want, power = Math.pow(10, Math.floor(Math.log10(span))), m = span / power;
    var step = power * (m <= 1.0000001 ? 1 : m <= 2.0000001 ? 2 : m <= 5.0000001 ? 5 : 10), ticks = [], i;
    if (s.log) {
      var wide = Math.log10(s.hi / s.lo) >= 1;
      for (i = Math.floor(Math.log10(s.lo)); i <= Math.ceil(Math.log10(s.hi)); i++)
        (wide ? [1] : [1, 1.5, 2, 3, 5, 7]).forEach(function (f) {
          var v = f * Math.pow(10, i);
          if (v >= s.lo * 0.999 && v <= s.hi * 1.001) ticks.push(v);
        });
      if (ticks.length > 8) ticks = ticks.filter(function (v, k) { return k % Math.ceil(ticks.length / 8) === 0; });
      if (ticks.length > 2) return ticks;
      fixed = true;
      ticks = [];
    }
    if (!fixed) { s.lo = Math.floor(s.lo / step + 1e-9) * step; s.hi = Math.ceil(s.hi / step - 1e-9) * step; }
    for (i = Math.ceil(s.lo / step - 1e-9); i <= Math.floor(s.hi / step + 1e-9); i++) ticks.push(i * step);
    return ticks;
  }
  function tick(v, s) {
    var unit = s.log ? Math.abs(v) : Math.max(Math.abs(s.lo), Math.abs(s.hi));
    if (unit >= 1e4 && unit < 1e10) return unit >= 1e6 ? Number((v / 1e6).toPrecision(4)) + 'M' : Number((v / 1e3).toPrecision(4)) + (v ? 'k' : '');
    return String(Number(v.toPrecision(4)));
  }

  var plots = [];
  function Plot(g) {
    var n = g.getAttribute('data-p').split(' ').map(Number), self = this;
    this.g = g;
    this.svg = g.ownerSVGElement;
    this.box = {left: n[0], top: n[1], right: n[2], bottom: n[3]};
    this.x0 = {lo: n[4], hi: n[5], log: false, from: n[0], to: n[2]};
    this.y0 = {lo: n[6], hi: n[7], log: !!n[8], from: n[3], to: n[1]};
    this.z0 = n.length > 9 ? {lo: n[9], hi: n[10], log: !!n[11], from: n[3], to: n[1]} : null;
    this.state = {log: this.y0.log, smooth: 0, time: false, zoom: null};
    this.lines = all(g, 'path').map(function (e) {
      var t = e.querySelector('title'), right = e.classList.contains('r');
      var text = t ? t.textContent : '', cut = text.lastIndexOf(': ');
      var line = {e: e, level: e.classList.contains('l'), series: e.classList.contains('s'), right: right,
        run: Number(e.getAttribute('data-u') || 0), ink: e.getAttribute('stroke'), name: cut < 0 ? '' : text.slice(0, cut),
        closed: /Z/.test(e.getAttribute('d'))};
      line.data = points(e.getAttribute('d')).map(function (p) {
        return p && [backward(self.x0, p[0]), backward(right ? self.z0 : self.y0, p[1])];
      });
      if (t) t.remove();
      return line;
    });
    this.circles = all(this.svg, '.c circle').map(function (e) {
      return {e: e, x: backward(self.x0, Number(e.getAttribute('cx'))), y: backward(self.y0, Number(e.getAttribute('cy')))};
    });
    this.x = this.x0;
    this.y = this.y0;
    this.z = this.z0;
    this.now = this.lines.map(function (l) { return l.data; });
    var label = this.svg.querySelector('.x .t');
    this.steps = label && label.textContent === 'step';
    this.label = label;
    if (this.steps) this.controls();
  }
  // Moving mean over as many points on both sides as the share of the line says, without breaks.
  function smooth(data, share) {
    var n = Math.round(data.length * share / 200);
    return data.map(function (p, i) {
      if (!p || !n) return p;
      var sum = 0, k = 0, reach = n;
      for (var d = 1; d <= n; d++) if (!data[i - d] || !data[i + d]) { reach = d - 1; break; }
      for (d = -reach; d <= reach; d++) { sum += data[i + d][1]; k++; }
      return [p[0], sum / k];
    });
  }
  Plot.prototype.draw = function () {
    var s = this.state, self = this;
    var time = s.time, unit = 1, name = 'step';
    function xs(line, v) { return time ? seconds(line.run, v) / unit : v; }
    if (time) {
      var end = Math.max.apply(null, times.map(function (t) { return t[t.length - 1][1]; }));
      unit = end > 7200 ? 3600 : end > 180 ? 60 : 1;
      name = unit === 3600 ? 'hours' : unit === 60 ? 'minutes' : 'seconds';
    }
    this.now = this.lines.map(function (l) {
      var d = l.data.map(function (p) { return p && [xs(l, p[0]), p[1]]; });
      return l.series ? smooth(d, s.smooth) : d;
    });
    var x = {lo: Infinity, hi: -Infinity, from: this.box.left, to: this.box.right};
    this.now.forEach(function (d, i) {
      if (!self.lines[i].level) d.forEach(function (p) { if (p) { x.lo = Math.min(x.lo, p[0]); x.hi = Math.max(x.hi, p[0]); } });
    });
    if (!time && !s.zoom) { x.lo = this.x0.lo; x.hi = this.x0.hi; }
    if (s.zoom) { x.lo = s.zoom[0]; x.hi = s.zoom[1]; }
    if (!(x.hi > x.lo)) x.hi = x.lo + 1;
    var y = this.range(x, false), z = this.z0 && this.range(x, true);
    var yt = nice(y, false), xt = nice(x, true), zt = z && nice(z, false);
    this.x = x; this.y = y; this.z = z;
    this.lines.forEach(function (l, i) {
      var d = '', pen = false, scale = l.right ? z : y;
      self.now[i].forEach(function (p) {
        if (!p || (scale.log && !(p[1] > 0))) { pen = false; return; }
        var px = l.level ? (p === self.now[i][0] ? x.from : x.to) : forward(x, p[0]);
        d += (pen ? 'L' : 'M') + Math.round(px * 100) + ' ' + Math.round(Math.max(-9e5, Math.min(9e5, forward(scale, p[1]) * 100)));
        pen = true;
      });
      l.e.setAttribute('d', d + (l.closed ? 'Z' : ''));
    });
    this.circles.forEach(function (c) {
      c.e.setAttribute('cx', forward(x, xs({run: 0}, c.x)));
      c.e.setAttribute('cy', forward(y, c.y));
    });
    this.axes(xt, yt, zt, name);
  };
  // The values of one axis within the shown stretch of x.
  Plot.prototype.range = function (x, right) {
    var s = this.state, self = this, old = right ? this.z0 : this.y0, lo = Infinity, hi = -Infinity, low = Infinity;
    function add(v) { if (v > 0) low = Math.min(low, v); lo = Math.min(lo, v); hi = Math.max(hi, v); }
    this.now.forEach(function (d, i) {
      if (self.lines[i].right !== right) return;
      d.forEach(function (p) { if (p && (self.lines[i].level || (p[0] >= x.lo && p[0] <= x.hi))) add(p[1]); });
    });
    var out = {from: old.from, to: old.to, log: !!s.log && low < Infinity};
    if (!s.zoom && !s.smooth && out.log === old.log) return {lo: old.lo, hi: old.hi, log: old.log, from: old.from, to: old.to};
    if (out.log) lo = low;
    if (!s.zoom && !out.log && old.lo === 0) lo = 0;
    if (!(hi > lo)) { var pad = Math.abs(lo) * 0.1 || 1; lo -= out.log ? lo / 2 : pad; hi += pad; }
    out.lo = lo; out.hi = hi;
    return out;
  };
  Plot.prototype.axes = function (xt, yt, zt, name) {
    var b = this.box, self = this;
    function axis(which, ticks, scale, line, text) {
      var g = self.svg.querySelector('.' + which), label = g && g.querySelector('.t');
      if (!g) return;
      all(g, 'text:not(.t)').forEach(function (t) { t.remove(); });
      g.querySelector('path').setAttribute('d', ticks.map(line).join('') + (which === 'y' ? '' : which === 'x' ? 'M' + b.left + ' ' + b.bottom + 'H' + b.right : 'M' + b.right + ' ' + b.top + 'V' + b.bottom));
      ticks.forEach(function (v) { var at = text(v); make(g, 'text', {x: at[0].toFixed(1), y: at[1].toFixed(1)}, tick(v, scale)); });
      if (label) g.appendChild(label);
    }
    axis('x', xt, this.x, function (v) { return 'M' + forward(self.x, v) + ' ' + b.bottom + 'v4'; }, function (v) { return [forward(self.x, v), b.bottom + 16]; });
    axis('y', yt, this.y, function (v) { return 'M' + b.left + ' ' + forward(self.y, v) + 'H' + b.right; }, function (v) { return [b.left - 6, forward(self.y, v) + 4.2]; });
    if (zt) axis('z', zt, this.z, function (v) { return 'M' + b.right + ' ' + forward(self.z, v) + 'h4'; }, function (v) { return [b.right + 7, forward(self.z, v) + 4.2]; });
    this.label.textContent = name;
  };
  Plot.prototype.controls = function () {
    var self = this, s = this.state, figure = this.svg.closest('figure'), id = 'clip' + plots.length, b = this.box;
    var clip = make(this.svg, 'clipPath', {id: id});
    make(clip, 'rect', {x: b.left - 1, y: b.top - 3, width: b.right - b.left + 3, height: b.bottom - b.top + 5});
    var wrap = doc.createElementNS(NS, 'g');
    this.g.parentNode.insertBefore(wrap, this.g);
    wrap.appendChild(this.g);
    wrap.setAttribute('clip-path', 'url(#' + id + ')');
    this.svg.setAttribute('class', 'live');
    if (!figure) return;
    var bar = doc.createElement('div');
    bar.className = 'tools';
    figure.insertBefore(bar, this.svg);
    function button(text, title, press) {
      var e = make(bar, 'button', {type: 'button', title: title, 'aria-pressed': 'false'}, text);
      e.addEventListener('click', function () { press(); hide(); self.draw(); update(); });
      return e;
    }
    var positive = this.lines.some(function (l) { return !l.right && l.data.some(function (p) { return p && p[1] > 0; }); });
    var log = positive && button('log', 'logarithmic y axis', function () { s.log = !s.log; });
    var time = times.length && button('time', 'time in place of steps', function () { s.time = !s.time; s.zoom = null; });
    var label = make(bar, 'label', {title: 'mean over neighbouring points'}, 'smooth ');
    var slider = make(label, 'input', {type: 'range', min: 0, max: 20, value: 0});
    slider.addEventListener('input', function () { s.smooth = Number(slider.value); self.draw(); });
    this.reset = button('all', 'show all steps again', function () { s.zoom = null; });
    function update() {
      if (log) log.setAttribute('aria-pressed', String(!!s.log));
      if (time) time.setAttribute('aria-pressed', String(s.time));
      self.reset.hidden = !s.zoom;
    }
    this.update = update;
    update();
  };
  // The nearest point of each line to a place in the figure.
  Plot.prototype.near = function (px, py) {
    var b = this.box, self = this, found = [];
    if (px < b.left - 4 || px > b.right + 4 || py < b.top - 4 || py > b.bottom + 4) return null;
    this.lines.forEach(function (l, i) {
      var best = null, scale = l.right ? self.z : self.y;
      if (!l.series) return;
      self.now[i].forEach(function (p, k) {
        if (!p) return;
        var x = forward(self.x, p[0]), y = forward(scale, p[1]);
        if (x < b.left - 1 || x > b.right + 1) return;
        var d = Math.abs(x - px);
        if (!best || d < best.d - 1e-9) best = {d: d, x: x, y: y, p: p, step: l.data[k][0], line: l, scale: scale};
      });
      if (best) found.push(best);
    });
    if (!found.length) return null;
    var nearest = Math.min.apply(null, found.map(function (f) { return f.d; }));
    found = found.filter(function (f) { return f.d <= nearest + 6; });
    found.sort(function (a, c) { return a.y - c.y; });
    return found;
  };
  Plot.prototype.tell = function (cx, cy) {
    var at = local(this.svg)(cx, cy), self = this, found = this.near(at[0], at[1]);
    hide();
    if (!found) return;
    var first = found.reduce(function (a, c) { return Math.abs(c.y - at[1]) < Math.abs(a.y - at[1]) ? c : a; });
    var lines = heading(this.svg), step = first.step;
    var gx = grain(this.x0, step), label = this.steps ? 'step' : (this.label ? this.label.textContent : 'x');
    lines.push({text: label + ' ' + (this.steps ? Math.round(gx > 1 ? Number(step.toPrecision(4)) : step) : show(step, gx)) +
      (this.state.time ? ', ' + show(first.p[0], grain(this.x, first.p[0])) + ' ' + this.label.textContent : '')});
    found.slice(0, 16).forEach(function (f) {
      var old = f.line.right ? self.z0 : self.y0;
      lines.push({text: (f.line.name ? f.line.name + ' ' : '') + show(f.p[1], grain(old, f.p[1])), ink: f.line.ink, bold: f === first && found.length > 1});
      make(self.svg, 'circle', {'class': 'dot', cx: f.x, cy: f.y, r: f === first ? 4 : 2.5, fill: f.line.ink});
    });
    place(cx, cy, lines);
  };

  all(doc, 'g[data-p]').forEach(function (g) { plots.push(new Plot(g)); });
  function plotOf(svg) { for (var i = 0; i < plots.length; i++) if (plots[i].svg === svg) return plots[i]; return null; }
  // The browser would show the titles of marks a second time.
  all(doc, 'svg').forEach(function (svg) {
    all(svg, 'title').forEach(function (t) {
      if (t.parentNode === svg) svg.setAttribute('aria-label', t.textContent);
      else t.parentNode.tipText = t.textContent;
      t.remove();
    });
  });

  // ---- pointer and keys ----
  var drag = null;
  function follow(e) {
    var svg = e.target.closest && e.target.closest('svg');
    if (drag) { stretch(e); return; }
    if (!svg) { hide(); return; }
    var mark = e.target, p = plotOf(svg), maps = all(svg, 'g[data-h]');
    for (var i = 0; i < maps.length; i++) {
      var lines = cell(maps[i], e.clientX, e.clientY);
      if (lines) { place(e.clientX, e.clientY, lines); return; }
    }
    if (p && !(mark.tipText && mark.tagName !== 'path')) { p.tell(e.clientX, e.clientY); return; }
    while (mark !== svg && !mark.tipText) mark = mark.parentNode;
    if (mark !== svg) place(e.clientX, e.clientY, heading(svg).concat([{text: mark.tipText}]));
    else hide();
  }
  function stretch(e) {
    var at = local(drag.plot.svg)(e.clientX, e.clientY), b = drag.plot.box;
    drag.end = Math.max(b.left, Math.min(b.right, at[0]));
    drag.rect.setAttribute('x', Math.min(drag.begin, drag.end));
    drag.rect.setAttribute('width', Math.abs(drag.end - drag.begin));
  }
  doc.addEventListener('pointermove', follow);
  doc.addEventListener('pointerdown', function (e) {
    var svg = e.target.closest && e.target.closest('svg.live'), p = svg && plotOf(svg);
    follow(e);
    if (!p || e.button) return;
    var at = local(svg)(e.clientX, e.clientY), b = p.box;
    if (at[0] < b.left || at[0] > b.right || at[1] < b.top || at[1] > b.bottom) return;
    drag = {plot: p, begin: at[0], end: at[0], rect: make(svg, 'rect', {'class': 'drag', x: at[0], y: b.top, width: 0, height: b.bottom - b.top})};
    if (e.pointerType === 'mouse') e.preventDefault();
  });
  function drop() {
    if (!drag) return;
    var p = drag.plot, d = drag;
    drag = null;
    d.rect.remove();
    if (Math.abs(d.end - d.begin) < 6) return;
    p.state.zoom = [backward(p.x, Math.min(d.begin, d.end)), backward(p.x, Math.max(d.begin, d.end))];
    hide();
    p.draw();
    if (p.update) p.update();
  }
  doc.addEventListener('pointerup', drop);
  doc.addEventListener('pointercancel', function () { if (drag) { drag.rect.remove(); drag = null; } });
  doc.addEventListener('dblclick', function (e) {
    var svg = e.target.closest && e.target.closest('svg.live'), p = svg && plotOf(svg);
    if (p && p.state.zoom) { p.state.zoom = null; p.draw(); p.update(); }
  });
  // ---- a filter of all tables of a page: rows that have every word; -WORD: rows without it ----
  all(doc, '.filter').forEach(function (box) {
    var rows = all(doc, 'table tr').filter(function (r) { return r.querySelector('td'); });
    var input = make(make(box, 'label', {}, 'Rows with '), 'input', {type: 'search', size: 28, placeholder: 'router "same bits" -file'});
    (box.getAttribute('data-words') || '').split('|').filter(Boolean).forEach(function (words) {
      make(box, 'button', {type: 'button'}, words).addEventListener('click', function () {
        input.value = input.value === '"' + words + '"' ? '' : '"' + words + '"';
        apply();
      });
    });
    var count = make(box, 'output', {});
    function apply() {
      var words = input.value.toLowerCase().match(/-?"[^"]+"|[^\s"]+/g) || [], n = 0;
      rows.forEach(function (r) {
        var text = r.textContent.toLowerCase(), shown = words.every(function (w) {
          var not = w.charAt(0) === '-' && w.length > 1;
          return (text.indexOf(w.slice(not ? 1 : 0).replace(/"/g, '')) < 0) === not;
        });
        r.style.display = shown ? '' : 'none';
        n += shown ? 1 : 0;
      });
      count.textContent = words.length ? n + ' of ' + rows.length + ' rows' : '';
    }
    var asked = /#rows=(.*)$/.exec(doc.URL);
    try {
      if (asked) input.value = decodeURIComponent(asked[1]);
    } catch (e) { /* no encoded text: no words */ }
    input.addEventListener('input', apply);
    box.hidden = false;
    apply();
  });
  doc.addEventListener('scroll', hide, true);
  doc.addEventListener('keydown', function (e) { if (e.key === 'Escape') hide(); });
})();
