// What a browser shows of a page of moefw, for tests/cli/pages/browser.bats, which appends this to a copy
// of the page that lies in a frame. The frame's parent gets the faults, one a line, and "done".
(function () {
  'use strict';
  var faults = window.FAULTS || [], all = function (root, what) { return [].slice.call(root.querySelectorAll(what)); };
  function fault(where, what) { faults.push(where + ': ' + what); }
  function title(svg) { var f = svg.closest('figure'), h = f && f.querySelector('h3'); return h ? h.textContent : svg.getAttribute('aria-label') || 'a figure'; }
  all(document, 'details').forEach(function (d) { if (!d.querySelector('pre')) d.open = true; });

  // ---- the page: no sideways scrolling, nothing cut ----
  var root = document.documentElement;
  if (root.scrollWidth > innerWidth + 1) fault('page', 'scrolls sideways: ' + root.scrollWidth + ' of ' + innerWidth);
  var svgs = all(document, 'figure svg, main svg');
  if (!svgs.length) fault('page', 'no figure');
  svgs.forEach(function (svg) {
    var frame = svg.getBoundingClientRect(), m = svg.getScreenCTM(), name = title(svg);
    if (!frame.width) { fault(name, 'is not shown'); return; }
    var size = 12 * m.a;
    if (size < 9 || size > 15.5) fault(name, 'text of ' + size.toFixed(1) + ' pixels');
    all(svg, 'text').forEach(function (t) {
      var b = t.getBoundingClientRect();
      if (b.left < frame.left - 3 || b.right > frame.right + 3 || b.top < frame.top - 3 || b.bottom > frame.bottom + 3)
        fault(name, 'text "' + t.textContent + '" is cut');
    });
    // ---- axes have ticks, which do not touch one another ----
    all(svg, 'g.x, g.y, g.z').forEach(function (g) {
      var ticks = all(g, 'text:not(.t)').filter(function (t) { return t.textContent; });
      if (ticks.length < 2) fault(name, 'axis ' + g.getAttribute('class') + ' has ' + ticks.length + ' ticks');
      for (var i = 1; i < ticks.length; i++) {
        var a = ticks[i - 1].getBoundingClientRect(), b = ticks[i].getBoundingClientRect();
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
          fault(name, 'ticks ' + ticks[i - 1].textContent + ' and ' + ticks[i].textContent + ' overlap');
      }
    });
    // ---- labels stand at their points ----
    function middle(e) { var b = e.getBoundingClientRect(); return [(b.left + b.right) / 2, (b.top + b.bottom) / 2]; }
    function away(b, p) { return Math.hypot(Math.max(b.left - p[0], p[0] - b.right, 0), Math.max(b.top - p[1], p[1] - b.bottom, 0)); }
    var circles = all(svg, 'g:not(.c) > circle').filter(function (c) { return c.tipText; });
    circles.forEach(function (c) {
      var own = c.tipText.slice(0, c.tipText.indexOf(': ')), at = middle(c);
      all(svg, 'text').forEach(function (t) {
        if (t.textContent !== own || t.closest('g.x, g.y')) return;
        if (all(svg, 'path.lead').some(function (l) { return Math.abs(Number(/M([\d.]+)/.exec(l.getAttribute('d'))[1]) - Number(c.getAttribute('cx'))) < 0.2; })) return;
        var b = t.getBoundingClientRect(), d = away(b, at);
        if (d > 40) fault(name, 'label ' + own + ' is ' + d.toFixed(0) + ' pixels from its point');
        circles.forEach(function (o) {
          if (o !== c && away(b, middle(o)) <= d) fault(name, 'label ' + own + ' stands at the point of ' + o.tipText);
        });
      });
    });
    if (all(svg, 'rect').some(function (r) { return /^expert \d/.test(r.tipText || ''); }) &&
        !all(svg, 'text').some(function (t) { return t.textContent === 'expert'; })) fault(name, 'bars of experts do not say so');
  });

  // ---- the pointer shows the values of metrics.jsonl ----
  // EXPECT: [figure, line or "" for the only one, step, value]
  (window.EXPECT || []).forEach(function (e) {
    var where = e[0] + ', ' + (e[1] || 'the line') + ', step ' + e[2], svg = null;
    svgs.forEach(function (s) { if (title(s) === e[0]) svg = s; });
    if (!svg) { fault(where, 'no such figure'); return; }
    svg.scrollIntoView();
    var g = svg.querySelector('g[data-p]'), n = g.getAttribute('data-p').split(' ').map(Number), m = svg.getScreenCTM();
    var t = n[8] ? Math.log(e[3] / n[6]) / Math.log(n[7] / n[6]) : (e[3] - n[6]) / (n[7] - n[6]);
    var x = n[0] + (e[2] - n[4]) / (n[5] - n[4]) * (n[2] - n[0]), y = n[3] + t * (n[1] - n[3]);
    var grain = (n[7] - n[6]) / (n[3] - n[1]) / 40 + 1e-4 * Math.abs(e[3]);
    svg.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: m.a * x + m.e, clientY: m.d * y + m.f}));
    var lines = all(document, '.tip:not([hidden]) div').map(function (d) { return d.textContent; });
    if (!lines.some(function (l) { return l === 'step ' + e[2]; })) fault(where, 'the pointer shows "' + lines.join(' | ') + '"');
    var shown = lines.filter(function (l) { return e[1] ? l.indexOf(e[1] + ' ') === 0 : /^-?[\d.]+$/.test(l); });
    var value = shown.length ? Number(shown[0].slice(shown[0].lastIndexOf(' ') + 1)) : NaN;
    if (!(Math.abs(value - e[3]) <= grain)) fault(where, 'expected ' + e[3] + ', shown ' + lines.join(' | '));
  });
  // TITLES: [figure, begin of the text at a mark of its own]
  (window.TITLES || []).forEach(function (e) {
    if (!svgs.some(function (s) { return title(s) === e[0] && all(s, 'circle').some(function (c) { return (c.tipText || '').indexOf(e[1]) === 0; }); }))
      fault(e[0], 'no mark "' + e[1] + '"');
  });
  if (matchMedia('(prefers-color-scheme: dark)').matches !== !!window.DARK) fault('page', 'another scheme than asked for');
  var ground = getComputedStyle(document.body).backgroundColor, light = Number(/\d+/.exec(ground)[0]) > 128;
  if (light === !!window.DARK) fault('page', 'a ground of ' + ground);
  parent.postMessage(innerWidth + ' ' + faults.concat('done').join('\n'), '*');
})();
