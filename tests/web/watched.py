"""A page of a real browser that remembers everything it must not do.

A script that came with data, a request to anywhere but the page's own origin, a dialog, an error
on the console, markup that no template of ours makes: each is a fault, in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    expect,
)

# Milliseconds until something that does not happen is a fault, on a busy machine too.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)
# What a script of a payload would call; ours never do. Policy violations mean that markup of a
# payload became an element, even where the policy then stopped it.
TRAPS = """
window.ran = [];
for (const name of ["alert", "confirm", "prompt", "print", "open", "fetch"])
  window[name] = (...said) => { window.ran.push(name + ": " + said.join(" ").slice(0, 80)); };
for (const name of ["write", "writeln"])
  document[name] = () => { window.ran.push("document." + name); };
document.addEventListener("securitypolicyviolation", (event) => {
  window.ran.push("policy: " + event.violatedDirective + " " + event.sample + event.blockedURI);
});
"""
# Elements and attributes that no template of ours makes.
STRANGE = """() => {
  const found = [...document.querySelectorAll(
    "img, picture, iframe, frame, object, embed, applet, video, audio, base, marquee, portal, "
    + "meta[http-equiv]:not([http-equiv='Content-Security-Policy']), math, template, textarea"
  )].map((e) => e.outerHTML.slice(0, 120));
  const own = location.protocol === "file:" ? "file:" : location.origin;
  for (const e of document.querySelectorAll("*")) for (const { name, value } of e.attributes) {
    if (/^on/i.test(name) || name === "srcdoc" || name === "style" && !e.closest(".plot, #tip"))
      found.push(`${e.tagName} ${name}=${value.slice(0, 80)}`);
    if (/^(href|src|action|formaction|xlink:href|data|poster|ping|background)$/i.test(name)
        && !/^(#|\\/(?!\\/)|data:,?$)/.test(value))
      found.push(`${e.tagName} ${name}=${value.slice(0, 80)}`);
  }
  for (const e of document.querySelectorAll("script:not([src])"))
    if (e.type !== "application/json" && own !== "file:") found.push("inline script");
  return found;
}"""


class Watched:
    """One page and its faults so far."""

    def __init__(self, page: Page, origin: str) -> None:
        """Watch `page`, which may ask only what begins with `origin`."""
        self.page = page
        page.set_default_timeout(PATIENCE)
        self._origin = origin
        self._faults: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._faults.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("popup", lambda popup: self._faults.append(f"window: {popup.url}"))
        page.on("download", lambda download: self._faults.append(f"file: {download.url}"))
        page.on("request", self._request)

    def go(self, address: str) -> None:
        """Open an address below the origin and wait until its charts are drawn."""
        self.page.goto(self._origin + address)
        self.settle()

    def settle(self) -> None:
        """Wait until every chart that can be seen is drawn."""
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('figure[data-chart]')].filter((f) => {"
            " const box = f.getBoundingClientRect();"
            " return box.height && box.top < innerHeight && box.bottom > 0; })"
            ".every((f) => f.querySelector('svg.marks, canvas'))",
        )

    def faults(self) -> list[str]:
        """Return what the page did that it must not, and what is in it that must not be."""
        ran = cast(list[str], self.page.evaluate("() => window.ran"))
        strange = cast(list[str], self.page.evaluate(STRANGE))
        return [*self._faults, *ran, *strange]

    def forget(self) -> None:
        """Forget the faults so far: the next lines provoke them."""
        self._faults.clear()

    def _dialog(self, dialog: Dialog) -> None:
        self._faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self._faults.append(f"console {message.type}: {message.text[:200]}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self._origin, "data:,")):
            self._faults.append(f"request: {request.url[:200]}")


@contextmanager
def watching(browser: Browser, origin: str) -> Iterator[Watched]:
    """Open a page of its own context; a request to elsewhere is a fault and goes nowhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    try:
        yield watched(context, origin)
    finally:
        context.close()


def watched(context: BrowserContext, origin: str) -> Watched:
    """Return a new page of a context."""
    context.add_init_script(TRAPS)
    return Watched(context.new_page(), origin)
