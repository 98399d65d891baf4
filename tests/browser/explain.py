#!/usr/bin/env python3
"""Opens pages of `straightline explain --html` in Chromium and checks them there.

    tests/browser/explain.py [--straightline PROGRAM] [--shots FOLDER] [WORKLOAD ...]

Each page is opened at the width of a desktop and of a phone, in light and dark. It must not write
errors to the console, fetch anything, or be wider than the window; texts must fit their boxes, boxes
must not overlap, and a step that is pointed at must be marked. As a part of another page it must leave
that page's own style alone. With --shots a picture of each is kept.

Needs Python alone, and whatever Chromium is on the machine (CHROMIUM names another); without one it says
so and is skipped.
"""

import argparse
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
WORKLOADS = ["w1.add_grad", "w3.bias_gelu", "w6.minigpt_b1", "w9.resnet18", "w11.train_mlp_8x256"]
WINDOWS = {"desktop": (1280, 900), "phone": (400, 800)}
PATIENCE = 60.0

# What a page says of itself in a window of some WIDTH. Boxes are compared within each drawing.
LOOK = """(function () {
  var faults = [];
  var page = document.documentElement;
  if (page.scrollWidth > WIDTH) {
    faults.push("the page is " + page.scrollWidth + " wide in a window of " + WIDTH);
  }
  document.querySelectorAll(".sl-explain details").forEach(function (d) { d.open = true; });
  if (page.scrollWidth > WIDTH) {
    faults.push("unfolded, the page is " + page.scrollWidth + " wide in a window of " + WIDTH);
  }
  document.querySelectorAll(".sl-explain svg").forEach(function (svg) {
    var boxes = [];
    svg.querySelectorAll("g").forEach(function (g) {
      var box = g.querySelector("rect").getBoundingClientRect();
      g.querySelectorAll("text").forEach(function (text) {
        var inside = text.getBoundingClientRect();
        if (inside.left < box.left || inside.right > box.right || inside.bottom > box.bottom) {
          faults.push("a text leaves its box: " + text.textContent);
        }
      });
      boxes.forEach(function (other) {
        if (box.left < other.right - 1 && other.left < box.right - 1 &&
            box.top < other.bottom - 1 && other.top < box.bottom - 1) {
          faults.push("two boxes overlap: " + g.textContent);
        }
      });
      boxes.push(box);
    });
  });
  document.querySelectorAll(".sl-plan").forEach(function (plan) {
    var row = plan.querySelector("tr[data-step]");
    if (!row) { return; }
    row.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    var all = plan.querySelectorAll('[data-step="' + row.dataset.step + '"]').length;
    if (plan.querySelectorAll(".sl-on").length !== all) { faults.push("a step is not marked"); }
    plan.dispatchEvent(new PointerEvent("pointerleave"));
    if (plan.querySelector(".sl-on")) { faults.push("a step stays marked"); }
  });
  return JSON.stringify({ faults: faults, boxes: document.querySelectorAll(".sl-node").length });
}())"""

# The styles of what is around the fragment.
AROUND = """JSON.stringify(Array.from(document.querySelectorAll(".host")).map(function (e) {
  var style = getComputedStyle(e), all = {};
  for (var i = 0; i < style.length; i++) { all[style[i]] = style.getPropertyValue(style[i]); }
  delete all["perspective-origin"]; delete all["transform-origin"];
  return all;
}))"""
HOST = """<!DOCTYPE html><meta charset="utf-8"><title>host</title>
<h1 class="host">Host</h1><p class="host">Text <code class="host">code</code></p>
<table class="host"><tr class="host"><td class="host">cell</td></tr></table>
<details class="host"><summary class="host">more</summary></details>%s"""


class Browser:
    """Chromium, spoken to over its pipe: JSON with a zero byte behind each message."""

    def __init__(self, program, profile):
        to_read, self.to = os.pipe()
        self.come, to_write = os.pipe()

        def wire():
            os.dup2(to_read, 13)
            os.dup2(to_write, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
                 "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        self.process = subprocess.Popen([program, *flags], preexec_fn=wire, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.rest = b""
        self.count = 0
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(domain + ".enable")

    session = None

    def next(self, until):
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.come], [], [], left)[0]:
                sys.exit("FAILED: the browser does not answer")
            some = os.read(self.come, 1 << 20)
            if not some:
                sys.exit("FAILED: the browser has ended")
            self.rest += some
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.next(until)
            if answer.get("id") == self.count:
                if "error" in answer:
                    sys.exit(f"FAILED: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, window, scheme):
        width, height = window
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        url = pathlib.Path(path).as_uri()
        self.call("Page.navigate", url=url)
        until = time.monotonic() + PATIENCE
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.next(until))
        return url

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            sys.exit(f"FAILED: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def faults(self, url):
        """Errors and requests since the page was opened."""
        for event in self.events:
            method, given = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                yield f"an exception: {given['exceptionDetails'].get('text')}"
            elif method == "Runtime.consoleAPICalled":
                yield f"the console: {given['type']}"
            elif method == "Log.entryAdded":
                yield f"the log: {given['entry']['text']}"
            elif method == "Network.requestWillBeSent" and given["request"]["url"] != url:
                yield f"a request: {given['request']['url']}"

    def shoot(self, path, whole):
        """A picture of the window, or of the whole page up to some length."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        more = {}
        if whole:
            more["clip"] = {"x": 0, "y": 0, "width": size["width"],
                            "height": min(size["height"], 6000), "scale": 1}
        made = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **more)
        pathlib.Path(path).write_bytes(base64.b64decode(made["data"]))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait()


def browser_program():
    names = [os.environ["CHROMIUM"]] if os.environ.get("CHROMIUM") else NAMES
    return next((found for found in map(shutil.which, names) if found), None)


def straightline_program(given):
    built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for program in [given, built / "release/straightline", built / "debug/straightline"]:
        if program and pathlib.Path(program).is_file():
            return str(program)
    sys.exit("FAILED: no `straightline`: cargo build -p straightline-cli, or --straightline")


def fragment(page):
    begin = page.index('<div class="sl-explain">')
    return page[begin:page.rindex("</body>")]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--straightline", help="the program; else what cargo has built")
    options.add_argument("--shots", type=pathlib.Path, help="a folder for pictures")
    options.add_argument("workloads", nargs="*", default=WORKLOADS)
    given = options.parse_args()
    chromium = browser_program()
    if chromium is None:
        print("SKIPPED: no Chromium on this machine (CHROMIUM can name one): "
              "pages of `explain --html` were not opened in a browser")
        return 0
    program = straightline_program(given.straightline)
    if given.shots:
        given.shots.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(chromium, os.path.join(folder, "profile"))
        for workload in given.workloads:
            page = os.path.join(folder, "page.html")
            subprocess.run([program, "explain", workload, "--html", page, "--calls", "3"],
                           check=True, stderr=subprocess.DEVNULL)
            for name, window in WINDOWS.items():
                for scheme in ["light", "dark"]:
                    url = browser.open(page, window, scheme)
                    if given.shots:
                        shot = given.shots / f"{workload}-{name}-{scheme}.png"
                        browser.shoot(shot, whole=True)
                    said = json.loads(browser.evaluate(LOOK.replace("WIDTH", str(window[0]))))
                    faults = list(browser.faults(url)) + said["faults"]
                    failed += bool(faults)
                    print(f"{workload:24} {name:8} {scheme:6} {said['boxes']:5} boxes  "
                          + ("ok" if not faults else "FAILED"))
                    for fault in faults[:10]:
                        print(f"    {fault}")
            # twice in another page, which looks as it does without
            part = fragment(pathlib.Path(page).read_text(encoding="utf-8"))
            styles = []
            for inside in ["", part + part]:
                host = os.path.join(folder, "host.html")
                pathlib.Path(host).write_text(HOST % inside, encoding="utf-8")
                url = browser.open(host, WINDOWS["desktop"], "light")
                styles.append(browser.evaluate(AROUND))
            same = styles[0] == styles[1] and not list(browser.faults(url))
            failed += not same
            print(f"{workload:24} as a part of another page: {'ok' if same else 'FAILED'}")
        browser.close()
    print(f"{failed} failed" if failed else "all pages are as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
