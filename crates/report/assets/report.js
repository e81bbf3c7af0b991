"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const home = document.getElementById("time");
  const colours = 8;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const element = (tag, cls, text) => {
    const e = document.createElement(tag);
    if (cls) e.className = cls;
    if (text !== undefined) e.textContent = text;
    return e;
  };

  const quantities = [
    { key: "goodput", title: "Goodput, kbit/s", names: data.flows, of: data.flows_of, what: "flows" },
    { key: "window", title: "Congestion window, kB", names: data.flows, of: data.flows_of, what: "flows" },
    { key: "queue", title: "Interface queue, packets", names: data.nodes, of: data.nodes_of, what: "nodes" },
  ];
  let redraw = [];

  for (const q of quantities) {
    const has = (i) => data.charts.some((c) => c[q.key][i] && c[q.key][i].length);
    const shown = q.names.map((_, i) => i).filter(has);
    if (!shown.length) continue;
    home.append(element("h3", "", q.title));
    const keys = element("div", "keys");
    const grid = element("div", "grid");
    home.append(keys, grid);
    const top = Math.max(...data.charts.flatMap((c) => c[q.key].flat()), 1e-9);
    const plots = [];
    const values = [];

    shown.forEach((i) => {
      const key = element("button", "key");
      key.type = "button";
      key.setAttribute("aria-pressed", "true");
      const dot = element("span", "dot");
      dot.style.background = `var(--c${i % colours})`;
      const value = element("output");
      values.push(value);
      key.append(dot, element("span", "", q.names[i]), value);
      key.onclick = () => {
        const on = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", on);
        plots.forEach((p) => p.setSeries(1 + shown.indexOf(i), { show: on }));
      };
      keys.append(key);
    });

    const draw = () => {
      plots.splice(0).forEach((p) => p.destroy());
      grid.replaceChildren();
      // All columns first: their width depends on how many there are.
      const figures = data.charts.map((c) => {
        const figure = element("figure", "chart");
        figure.append(element("figcaption", "", c.control));
        grid.append(figure);
        return figure;
      });
      data.charts.forEach((c, n) => {
        const figure = figures[n];
        const axis = { stroke: css("--soft"), grid: { stroke: css("--faint"), width: 1 }, ticks: { show: false } };
        const plot = new uPlot({
          width: figure.clientWidth,
          height: 180,
          legend: { show: false },
          cursor: { sync: { key: q.key }, drag: { x: true, y: false } },
          scales: { x: { time: false }, y: { range: [0, top * 1.05] } },
          axes: [{ ...axis, size: 30, values: (_, ticks) => ticks.map((t) => t + " s") }, { ...axis, size: 54 }],
          series: [{}].concat(shown.map((i) => ({
            label: q.names[i],
            stroke: css(`--c${i % colours}`),
            width: 1.5,
            points: { show: false },
          }))),
          hooks: {
            setCursor: [(u) => {
              if (!u.root.matches(":hover")) return;
              shown.forEach((_, k) => {
                const v = u.cursor.idx == null ? null : u.data[k + 1][u.cursor.idx];
                values[k].textContent = v == null ? "" : v.toFixed(1);
              });
            }],
          },
        }, [c.time, ...shown.map((i) => c.time.map((_, k) => c[q.key][i][k] ?? null))], figure);
        plots.push(plot);
      });
      keys.querySelectorAll("button").forEach((b, k) => {
        if (b.getAttribute("aria-pressed") === "false") plots.forEach((p) => p.setSeries(1 + k, { show: false }));
      });
    };
    draw();
    redraw.push(draw);
    const note = shown.length < q.of
      ? `Seed ${data.seed}; ${shown.length} of ${q.of} ${q.what}. `
      : `Seed ${data.seed}. `;
    home.append(element("p", "note", note + "Drag to zoom, double-click to go back; a name hides its curve."));
  }
  if (!redraw.length) {
    home.append(element("p", "note", "No curves were sampled."));
  }

  let waiting;
  let width = innerWidth;
  const again = () => { clearTimeout(waiting); waiting = setTimeout(() => redraw.forEach((d) => d()), 120); };
  // Phones resize in height while scrolling; only the width matters.
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; again(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
