"""Hooks of mkdocs.yml: pages of docs/ as the site's Markdown wants them.

- A fence has one word: `dl file=NAME` becomes a line with NAME and a block of dl.
- A link to a file of the repository outside docs/ becomes its text with the path; the site has no
  such file.
- The notebook's pages are kept as they were written: a link that leads nowhere becomes its text.
- Headings have the anchors that code hosts give them.
"""
import os
import re

LINK = re.compile(r"(?<!!)\[((?:[^][]|\[[^]]*\])+)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w+) +(.*)$", re.M)


def anchor(title, separator):
    """A heading's anchor, as GitHub and GitLab have it."""
    return re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", separator)


def fence(match):
    name = re.search(r"file=(\S+)", match[2])
    return (f"`{name[1]}`:\n\n" if name else "") + f"```{match[1]}"


def on_config(config):
    config["mdx_configs"].setdefault("toc", {})["slugify"] = anchor
    return config


def on_page_markdown(markdown, page, config, files):
    docs = config["docs_dir"]
    here = os.path.dirname(page.file.abs_src_path)
    notebook = page.file.src_uri.startswith("notebook/")

    def link(match):
        text, target = match.groups()
        path = target.partition("#")[0]
        if not path or "://" in target:
            return match[0]
        whole = os.path.normpath(os.path.join(here, path))
        if whole.startswith(docs + os.sep):
            return text if notebook and not os.path.isfile(whole) else match[0]
        if not os.path.exists(whole):
            return text if notebook else match[0]
        name = os.path.relpath(whole, os.path.dirname(docs))
        return text if name.strip("/") in text else f"{text} (`{name}`)"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    parts = [FENCE.sub(fence, p, count=1) if p.startswith("```") else LINK.sub(link, p) for p in parts]
    return "".join(parts)
