#!/usr/bin/env python3
"""Builds the documents as a site, checks its links, and opens it in a browser.

check_site.py     no arguments; SKIP (77) without scripts/install-mkdocs or Debian's chromium

The site must build without a warning, and no page may ask another host for anything. Each link
leads to a file, and to a heading of it where it names one. In the browser each page is found by the
navigation, and by a search for words that stand on it (of a share, one of the searches).
"""
import functools
import html.parser
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from checks import drawn  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MKDOCS = CACHE / "dlc-mkdocs/bin/mkdocs"
SECONDS = 300  # of one program
# Words, and the page that a search for them must find.
SEARCHES = {"stop_after requeue": "guide/resume.html", "shallow water vorticity": "datasets/weather.html",
            "rmsprop": "reference/optimizers.html", "epilogue": "internals/words.html"}


class Page(html.parser.HTMLParser):
    """A page's links (attribute, target), its anchors, and what it loads by itself."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.loaded = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag in ("script", "img", "iframe", "source") and attrs.get("src"):
            self.loaded.append(attrs["src"])
        if tag == "link" and attrs.get("href") and attrs.get("rel") != "canonical":
            self.loaded.append(attrs["href"])


def built(site):
    """What mkdocs has to say against the documents."""
    done = subprocess.run([MKDOCS, "build", "--strict", "-q", "-d", site], cwd=ROOT, text=True,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, timeout=SECONDS,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode or done.stdout.strip():
        yield f"mkdocs build --strict: {done.stdout.strip()[-1500:]}"


def dead_links(site, pages):
    """Links and loaded files that are not there, and any of another host that is loaded."""
    for name, page in pages.items():
        for target in page.loaded + page.links:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    yield f"{name} loads {target}"
                continue
            path = urllib.parse.unquote(parts.path)
            folder = site if path.startswith("/") else (site / name).parent  # 404.html is anywhere
            file = folder / path.lstrip("/") if path else site / name
            file = file / "index.html" if file.is_dir() else file
            if not file.is_file():
                yield f"{name} leads to {target}, which does not exist"
                continue
            other = pages.get(str(file.resolve().relative_to(site)))
            if parts.fragment and other and urllib.parse.unquote(parts.fragment) not in other.anchors:
                yield f"{name} leads to {target}, where there is no such heading"


# At the end of search.html: the picture keeps the page loading, so that the browser prints it only
# when the search, which runs in a thread of its own, has put its results there.
WAIT = b"""<img src="/wait"><script>
setInterval(() => { const found = document.getElementById("mkdocs-search-results");
                    if (found && !found.textContent.includes("Searching")) fetch("/searched"); }, 50);
</script></body>"""


class Server(http.server.SimpleHTTPRequestHandler):
    """The site's files; /wait is answered when /searched was asked for."""
    searched = threading.Event()

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/search.html":
            self.searched.clear()
            self.answer((pathlib.Path(self.directory) / "search.html").read_bytes().replace(b"</body>", WAIT))
        elif path in ("/wait", "/searched"):
            if path == "/searched":
                self.searched.set()
            self.searched.wait(60)
            self.answer(b"")
        else:
            super().do_GET()

    def answer(self, content):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def seen(browser, folder, address):
    """A page's text of elements as the browser has made it, scripts run."""
    done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                           "--no-first-run", "--disable-extensions", "--disable-background-networking",
                           f"--user-data-dir={folder}", "--dump-dom", address],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SECONDS)
    return done.stdout.decode(errors="replace")


def in_browser(browser, site, pages):
    """Faults of navigation and search, as a reader meets them."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    wanted = {n for n in pages if n not in ("404.html", "search.html", "genindex.html")}
    with tempfile.TemporaryDirectory(prefix="dlc_browser_") as folder:
        text = seen(browser, folder, f"{address}/index.html")
        menu = re.search(r'<div class="wy-menu.*?</nav>', text, re.S)
        links = {href.partition("#")[0] for href in Page(menu[0]).links} if menu else set()
        if wanted - links - {"index.html"}:
            yield f"the navigation does not lead to {', '.join(sorted(wanted - links - {'index.html'}))}"
        for words, page in drawn(SEARCHES.items()):
            text = seen(browser, folder, f"{address}/search.html?{urllib.parse.urlencode({'q': words})}")
            found = re.search(r'id="mkdocs-search-results".*?</div>', text, re.S)
            links = [href for href in Page(text[found.start():] if found else "").links]
            if not any(page in href for href in links):
                yield f"a search for '{words}' does not find {page}"
        text = seen(browser, folder, f"{address}/guide/train.html")
        if "Train a model that is there" not in text or 'class="current"' not in text:
            yield "guide/train.html does not open, or the navigation does not show where it is"
    server.shutdown()


def blind(site, pages):
    """Plants faults, which dead_links must see."""
    planted = {**pages, "planted.html": Page('<a href="nowhere.html"></a><a href="index.html#nowhere"></a>'
                                             '<script src="https://example.org/a.js"></script>')}
    if len(list(dead_links(site, planted))) != 3 + len(list(dead_links(site, pages))):
        yield "a dead link, a missing heading or a script of another host is not seen"


def main():
    if not MKDOCS.exists():
        print("SKIP: no mkdocs: scripts/install-mkdocs")
        sys.exit(77)
    browser = shutil.which("chromium")
    with tempfile.TemporaryDirectory(prefix="dlc_site_") as folder:
        site = pathlib.Path(folder).resolve()
        faults = list(built(site))
        pages = {str(p.relative_to(site)): Page(p.read_text()) for p in site.rglob("*.html")}
        if not faults:
            faults += dead_links(site, pages)
            faults += blind(site, pages)
        if not faults and browser:
            faults += in_browser(browser, site, pages)
    for fault in faults:
        print(f"failed: {fault}")
    if not faults and not browser:
        print("SKIP: no chromium, so the site was not opened: scripts/install-packages test")
        sys.exit(77)
    print(f"{len(pages) + len(drawn(SEARCHES)) + 1} passed, {len(faults)} failed")
    sys.exit(len(faults) > 0)


main()
