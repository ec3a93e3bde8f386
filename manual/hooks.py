"""MkDocs calls these. Files of the repository that pages link to are put under repository/, and statements get their diagrams."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from manual import diagrams
from manual.syntax import statements

ROOT = Path(__file__).parents[1]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "examples/notebook.ipynb", "examples/streamtable.service")
BLOCK = re.compile(r"^```(sql error|result)$", re.MULTILINE)  # words that the tests understand (tests/spark/test_docs.py)
LANGUAGES = {"sql error": "sql", "result": "text"}
LINK = re.compile(r"(\]\()((?:\.\./)*(?:" + "|".join(map(re.escape, OUTSIDE)) + r"))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that stand outside of docs/, and the style of the diagrams."""
    for name in OUTSIDE:
        files.append(File.generated(config, f"repository/{name}", abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "railroad.css", content=diagrams.STYLE))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Put the diagrams in, and let links lead to where the site has the files from outside."""
    uri = page.file.src_uri
    markdown = BLOCK.sub(lambda found: "```" + LANGUAGES[found[1]], markdown)
    if uri == "reference/syntax.md":
        for each in statements():
            before, heading, after = markdown.partition(f"\n## {each.title}\n")
            block, end, rest = after.partition("\n```\n")
            markdown = f"{before}{heading}{block}{end}\n{diagrams.diagrams(each)}\n{rest}"
    if uri.startswith("repository/"):  # its links start at the repository's root
        return markdown.replace("](docs/", "](../")
    above = relpath(".", uri.rpartition("/")[0] or ".")  # from the page's folder to docs/
    return LINK.sub(lambda link: f"{link[1]}{above}/repository/{link[2].replace('../', '')}", markdown)
