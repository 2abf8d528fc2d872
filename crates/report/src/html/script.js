"use strict";
// Each plot gets what a picture alone has not: numbers beside the pointer, zooming, and series that can be
// switched off. All of it works on what the SVG says of itself. Without this script the picture is complete.
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const trimmed = (value, digits) => String(Number(value.toPrecision(digits)));
  const scaled = (value, steps) => {
    const [by, unit] = steps.find(([by]) => Math.abs(value) < by * 1000) || steps[steps.length - 1];
    return value === 0 ? "0" : `${trimmed(value / by, 5)} ${unit}`;
  };
  const TIMES = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];
  const RATES = [[1, "bit/s"], [1e3, "kbit/s"], [1e6, "Mbit/s"], [1e9, "Gbit/s"]];
  const said = (value, unit) => {
    switch (unit) {
      case "ns": return scaled(value, TIMES);
      case "bps": return scaled(value, RATES);
      case "share": return `${trimmed(value * 100, 6)}%`;
      case "change": return `${value > 0 ? "+" : ""}${trimmed(value * 100, 6)}%`;
      default: return Number(value.toPrecision(8)).toLocaleString("en");
    }
  };

  // An axis: from a share of its length to a value, and round values within a part of it.
  const axis = (text) => {
    const [scale, unit, from, to] = text.split(" ");
    const log = scale === "log";
    const ends = [Number(from), Number(to)].map((end) => (log ? Math.log(end) : end));
    const value = (share) => {
      const at = ends[0] + share * (ends[1] - ends[0]);
      return log ? Math.exp(at) : at;
    };
    const share = (value) => ((log ? Math.log(value) : value) - ends[0]) / (ends[1] - ends[0]);
    const ticks = (low, high) => {
      const found = [];
      if (log && high / low > 8) {
        for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) && found.length < 90; power++) {
          for (const n of high / low > 1e3 ? [1] : [1, 2, 5]) found.push(n * 10 ** power);
        }
      } else {
        const rough = (high - low) / 6;
        const power = 10 ** Math.floor(Math.log10(rough));
        const step = power * [1, 2, 5, 10].find((n) => n * power >= rough);
        const first = Math.ceil(low / step);
        for (let n = 0; n < 12; n++) found.push((first + n) * step);
      }
      return found.filter((tick) => tick >= low && tick <= high);
    };
    return { named: scale === "named", unit, value, share, ticks };
  };

  const plot = (svg) => {
    const area = svg.querySelector(".area");
    const width = Number(area.getAttribute("width"));
    const height = Number(area.getAttribute("height"));
    const left = Number(area.getAttribute("x"));
    const top = Number(area.getAttribute("y"));
    const axes = { x: axis(svg.dataset.x), y: axis(svg.dataset.y) };
    const grids = { x: svg.querySelector(".ticks.x"), y: svg.querySelector(".ticks.y") };
    const drawn = { x: [...grids.x.children], y: [...grids.y.children] };
    const points = [...area.querySelectorAll(".m")].map((node) => {
      const [x, y] = node.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
      const title = node.querySelector("title");
      const text = title ? title.textContent : "";
      if (title) title.remove();
      return { node, x, y, text, series: node.closest(".series") };
    });
    // Which part of the area is seen, in shares of it, from its upper left.
    const whole = { x: [0, 1], y: [0, 1] };
    let view = whole;

    const placed = (x, y) => [
      ((x / width - view.x[0]) / (view.x[1] - view.x[0])) * width,
      ((y / height - view.y[0]) / (view.y[1] - view.y[0])) * height,
    ];
    const redraw = () => {
      const [sx, sy] = [1 / (view.x[1] - view.x[0]), 1 / (view.y[1] - view.y[0])];
      const [dx, dy] = placed(0, 0);
      area.setAttribute("overflow", view === whole ? "visible" : "hidden");
      for (const node of area.querySelectorAll(".line, rect.bar")) {
        const mark = node.closest(".mark");
        node.setAttribute("transform", mark ? `matrix(${sx} 0 0 1 ${dx} 0)` : `matrix(${sx} 0 0 ${sy} ${dx} ${dy})`);
      }
      for (const point of points) {
        point.node.setAttribute("transform", `translate(${placed(point.x, point.y).join(" ")})`);
      }
      regrid("x");
      regrid("y");
    };
    // The value at a share of what is seen; an ordinate begins below.
    const value = (name, share) => axes[name].value(name === "x" ? share : 1 - share);
    const regrid = (name) => {
      const grid = grids[name];
      const back = view === whole;
      if (back) return grid.replaceChildren(...drawn[name]);
      if (drawn[name].length === 0) return;
      const length = name === "x" ? width : height;
      const start = name === "x" ? left : top;
      const inside = (at) => at >= -0.5 && at <= length + 0.5;
      const at = (share) => ((share - view[name][0]) / (view[name][1] - view[name][0])) * length;
      const made = [];
      const place = (node, pixel, text) => {
        const copy = node.cloneNode(true);
        const [line, label] = copy.children;
        const shown = (start + pixel).toFixed(1);
        line.setAttribute(`${name}1`, shown);
        line.setAttribute(`${name}2`, shown);
        label.setAttribute(name, name === "x" ? shown : start + pixel + 4);
        const turned = label.getAttribute("transform");
        if (turned && name === "x") label.setAttribute("transform", `rotate(-30 ${shown} ${label.getAttribute("y")})`);
        if (text !== undefined) label.textContent = text;
        made.push(copy);
      };
      if (axes[name].named) {
        for (const node of drawn[name]) {
          const was = Number(node.firstElementChild.getAttribute(`${name}1`)) - start;
          const pixel = at(was / length);
          if (inside(pixel)) place(node, pixel);
        }
      } else {
        const [a, b] = view[name].map((share) => value(name, share)).sort((a, b) => a - b);
        for (const tick of axes[name].ticks(a, b)) {
          const share = axes[name].share(tick);
          place(drawn[name][0], at(name === "x" ? share : 1 - share), said(tick, axes[name].unit));
        }
      }
      grid.replaceChildren(...made);
    };

    const within = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [at.x - left, at.y - top];
    };
    const NEAR = 24;
    let ring = null;
    const hide = () => {
      tip.hidden = true;
      if (ring) ring.classList.remove("near");
      ring = null;
    };
    const tell = (event) => {
      const [x, y] = within(event);
      let best = null;
      let least = NEAR;
      for (const point of points) {
        if (!point.text || point.series.classList.contains("off")) continue;
        const [px, py] = placed(point.x, point.y);
        const far = Math.hypot(px - x, py - y);
        if (far < least) [best, least] = [point, far];
      }
      hide();
      if (!best) return;
      ring = best.node;
      ring.classList.add("near");
      tip.textContent = best.text;
      tip.hidden = false;
      const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
      tip.style.left = `${Math.min(event.clientX + 14, room) + window.scrollX}px`;
      tip.style.top = `${event.clientY + 18 + window.scrollY}px`;
    };

    const box = document.createElementNS(svg.namespaceURI, "rect");
    box.setAttribute("class", "box");
    let from = null;
    const clamp = (value, most) => Math.min(Math.max(value, 0), most);
    svg.addEventListener("pointerdown", (event) => {
      const [x, y] = within(event);
      if (event.button !== 0 || x < 0 || y < 0 || x > width || y > height) return;
      from = [x, y];
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return tell(event);
      hide();
      const to = within(event);
      const sides = [0, 1].map((n) => [from[n], clamp(to[n], [width, height][n])].sort((a, b) => a - b));
      box.setAttribute("x", sides[0][0]);
      box.setAttribute("y", sides[1][0]);
      box.setAttribute("width", sides[0][1] - sides[0][0]);
      box.setAttribute("height", sides[1][1] - sides[1][0]);
      area.append(box);
    });
    const zoom = (to) => {
      const part = (n, name, length) => {
        const ends = [from[n], clamp(to[n], length)].sort((a, b) => a - b);
        const [low, high] = view[name];
        return ends.map((end) => low + (end / length) * (high - low));
      };
      const next = { x: part(0, "x", width), y: part(1, "y", height) };
      const enough = (ends) => ends[1] - ends[0] > 1e-6;
      if (enough(next.x) && enough(next.y)) view = next;
    };
    svg.addEventListener("pointerup", (event) => {
      box.remove();
      if (!from) return;
      const to = within(event);
      if (Math.abs(to[0] - from[0]) > 8 && Math.abs(to[1] - from[1]) > 8) {
        zoom(to);
        redraw();
      }
      from = null;
    });
    svg.addEventListener("pointercancel", () => {
      box.remove();
      from = null;
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("dblclick", () => {
      view = whole;
      redraw();
    });

    for (const key of svg.querySelectorAll(".key")) {
      key.setAttribute("role", "button");
      key.setAttribute("tabindex", "0");
      key.setAttribute("aria-pressed", "true");
      const toggle = () => {
        const off = key.classList.toggle("off");
        key.setAttribute("aria-pressed", String(!off));
        for (const node of area.querySelectorAll(".series")) {
          if (node.dataset.s === key.dataset.s) node.classList.toggle("off", off);
        }
      };
      key.addEventListener("click", toggle);
      key.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle();
      });
    }
    // What is within a picture is hidden from assistive technology; the switches are not to be.
    svg.setAttribute("role", "group");
    svg.classList.add("live");
  };

  document.querySelectorAll("svg.plot").forEach(plot);
  document.querySelectorAll(".how").forEach((node) => { node.hidden = false; });
})();
