"""The pages of the site that say what the code says: commands, methods, datasets,
corruptions, shapes of files.

mkdocs calls on_files() and on_page_markdown() as hooks. pages() needs fedcli alone, so that a test
can read them without mkdocs.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import clinical_schema
import scores_schema
import typer

from fedcli.commands.app import app
from fedcli.common_options import FAMILIES
from fedcli.data import manifest_bodies, sources
from fedcli.data.corruption.kinds import KINDS, MODALITIES, of_modality
from fedcli.methods import METHODS, Method
from fedcli.methods.contract import NEEDS
from fedcli.options import Option, describe

ROOT = Path(__file__).parent.parent
REPOSITORY_PAGES = {  # a page of the site -> the file of the repository that it shows
    "architecture.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "recipes.md": "recipes/README.md",
}
SITE_PAGES = {file: page for page, file in REPOSITORY_PAGES.items()}
LINK = re.compile(r"\[([^]]+)\]\(([^)\s]+)\)")
FROM_DOCS = re.compile(r"\[([^]]+)\]\((\.\./[^)\s]+)\)")
EQUATIONS = tomllib.loads(
    (ROOT / "docs" / "equations.toml").read_text(encoding="utf-8")
)  # method -> {what: LaTeX}
JSON_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}


def pages() -> dict[str, str]:
    """Path within the site -> text."""
    made = {page: _from_repository(file) for page, file in REPOSITORY_PAGES.items()}
    made |= _commands() | _methods() | _datasets() | _corruptions() | _files()
    return made


def on_files(files: Any, config: Any) -> Any:
    """mkdocs: add the generated pages, and pictures' folders stay as they are."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(text: str, **_: Any) -> str:
    """mkdocs: links from a page to other files of the repository lead to pages of the site."""
    return FROM_DOCS.sub(_on_site, text)


def _from_repository(file: str) -> str:
    """A page of the repository, with links for the site."""
    return LINK.sub(_on_site, (ROOT / file).read_text(encoding="utf-8"))


def _on_site(link: re.Match[str]) -> str:
    """A link that leads to a page of the site, or its words where the site has no such page."""
    words, target = link.groups()
    if "://" in target or target.startswith("#"):
        return link[0]
    file, sharp, anchor = target.removeprefix("../").removeprefix("docs/").partition("#")
    page = SITE_PAGES.get(file, file)
    if page in REPOSITORY_PAGES or (ROOT / "docs" / page).exists():
        return f"[{words}]({page}{sharp}{anchor})"
    if link.re is FROM_DOCS and not (ROOT / file).exists():
        return link[0]  # between generated pages
    return f"`{words.strip('`')}`"


def _commands() -> dict[str, str]:
    """A page for each command, from what --help knows."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    rows, made = [], {}
    for name, command in sorted(commands.items()):
        about = " ".join((command.help or "").split())
        rows.append([f"[`{name}`]({name}.md)", about.split(". ")[0].rstrip(".")])
        context = command.make_context(
            f"fedcli {name}",
            [],
            resilient_parsing=True,
        )
        usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
        options = [_option(parameter) for parameter in command.get_params(context)]
        body = f"```text\n{usage}\n```\n\n{_paragraphs(command.help or '')}\n\n"
        shown = [option for option in options if option]
        made[f"commands/{name}.md"] = (
            f"# fedcli {name}\n\n{body}{_table(['option', 'what', 'default'], shown)}"
        )
    made["commands/index.md"] = f"# Commands\n\n{_table(['command', 'what it does'], rows)}"
    return made


def _option(parameter: Any) -> list[str]:
    """One row; [] for what --help does not show."""
    if getattr(parameter, "hidden", False):
        return []
    is_option = parameter.param_type_name == "option"
    flags = (
        ", ".join([*parameter.opts, *parameter.secondary_opts])
        if is_option
        else parameter.name.upper()
    )
    metavar = (
        "" if getattr(parameter, "is_flag", False) or not is_option else parameter.metavar or ""
    )
    default = parameter.default
    nothing = default is None or default is False or callable(default) or default in ([], ())
    return [
        f"`{f'{flags} {metavar}'.strip()}`",
        getattr(parameter, "help", "") or "",
        "" if nothing else f"`{default}`",
    ]


def _paragraphs(text: str) -> str:
    """A help text; a line of examples becomes code."""
    lines = []
    for part in re.split(r"\n\s*\n", text.strip()):
        words = " ".join(part.replace("\b", "").split())
        head, example, rest = words.partition("Example")
        lines.append(words if not example or head else _example(rest))
    return "\n\n".join(lines)


def _example(words: str) -> str:
    commands = [line.strip() for line in words.lstrip("s").lstrip(": ").split("; ")]
    return "```sh\n" + "\n".join(commands) + "\n```"


def _methods() -> dict[str, str]:
    made = {f"methods/{name}.md": _method(method) for name, method in METHODS.items()}
    head = (
        "By purpose, as `fedcli methods` lists them; "
        "[Methods and training options](../choose-a-method.md) "
        "says when to use which. A rule is the reading of a paper that runs: `paper` (its "
        "formula), `released` (what its authors' code computes) or `original` (a baseline's own "
        "first paper). What the server must see of each client, as a method runs by default: "
        + "; ".join(f"`{word}`: {meaning}" for word, meaning in NEEDS.items())
        + ".\n"
    )
    for family, meaning in FAMILIES.items():
        rows = [
            [f"[`{name}`]({name}.md)", method.label, method.rule, method.needs, method.about]
            for name, method in METHODS.items()
            if method.families[0] == family
        ]
        table = _table(["method", "in papers", "rule", "server needs", "what it does"], rows)
        head += f"\n## {meaning[:1].upper()}{meaning[1:]}\n\n{table}"
    return made | {"methods/index.md": f"# Methods\n\n{head}"}


def _method(method: Method) -> str:
    halves = {"client": describe(method.local), "server": describe(method.aggregator)}
    options = [
        _method_option(option, half)
        for half, listed in halves.items()
        for option in listed.values()
    ]
    text = (
        f"# {method.label}\n\n`fedcli train {method.name}`: {method.about}. Rule: {method.rule}. "
    )
    text += f"The server must see {NEEDS[method.needs]}.\n\n"
    if method.name in EQUATIONS:
        text += f"## Equations\n\n{_equations(EQUATIONS[method.name])}"
    if options:
        text += f"## Options\n\n{_table(['option', 'half', 'default', 'meaning'], options)}\n"
    return (
        f"{text}## Source, and how this differs\n\n```text\n{method.documentation.strip()}\n```\n"
    )


def _equations(named: dict[str, str]) -> str:
    """Formulas as MathML, which browsers draw by themselves."""
    from latex2mathml.converter import convert  # of the extra docs

    return "".join(
        f"{what}:\n\n{convert(formula, display='block')}\n\n" for what, formula in named.items()
    )


def _method_option(option: Option, half: str) -> list[str]:
    return [f"`--set {option.name}=`", half, f"`{option.default}`", option.meaning]


def _datasets() -> dict[str, str]:
    made, rows = {}, []
    for name in sorted(sources.SOURCES):
        card = sources.card(name)
        rows.append(
            [
                f"[`{name}`]({name}.md)",
                card["title"],
                ", ".join(card["attributes"]) or "-",
                card["licence"],
            ]
        )
        made[f"datasets/{name}.md"] = _dataset(name, card)
    made["datasets/index.md"] = (
        f"# Datasets\n\n{_table(['dataset', 'what', 'attributes', 'licence'], rows)}"
    )
    return made


def _dataset(name: str, card: dict[str, Any]) -> str:
    files = [
        [f"`{file['path']}`", file.get("what", ""), ", ".join(file.get("columns", []))]
        for file in card["files"]
    ]
    groups = [[attribute, ", ".join(values)] for attribute, values in card["attributes"].items()]
    text = f"# {name}\n\n{card['title']}.\n\n"
    text += f"- Classes: {', '.join(card['classes']) or 'any'}\n- Where from: {card['where']}\n"
    text += f"- Licence: {card['licence']}\n- Citation: {card['citation']}\n"
    text += "".join(
        f"- Split `{split}`: {meaning}\n" for split, meaning in card.get("splits", {}).items()
    )
    text += (
        f"\n{card.get('notes', '')}\n\n## Files "
        f"expected\n\n{_table(['file', 'what', 'columns'], files)}"
    )
    return text + (
        f"\n## Attributes\n\n{_table(['attribute', 'values'], groups)}" if groups else ""
    )


def _corruptions() -> dict[str, str]:
    """A page of all kinds, by modality."""
    text = "# Corruptions\n\n`fedcli corrupt KIND` and `fedcli evaluate --corrupt KIND`; see "
    text += "[Corruptions](../corruptions.md).\n"
    for modality, words in MODALITIES.items():
        kinds = [KINDS[name] for name in of_modality(modality)]
        rows = []
        for kind in kinds:
            amounts = ", ".join(map(str, kind.amounts))
            rows.append([f"`{kind.name}`", kind.about, f"{amounts} ({kind.unit})", kind.source])
        heads = ["kind", "what it does", "severity 1 to 5", "definition"]
        text += f"\n## {modality}: {words}\n\n{_table(heads, rows)}"
    return {"corruptions/index.md": text}


def _files() -> dict[str, str]:
    """A JSON Schema for each kind of manifest, and a page that lists them."""
    made = {
        f"schemas/{kind}.json": json.dumps(schema(kind), indent=1) + "\n"
        for kind in manifest_bodies.BODIES
    }
    rows = [
        [f"[`{kind}`](schemas/{kind}.json)", ", ".join(manifest_bodies.FILES.get(kind, [])) or "-"]
        for kind in manifest_bodies.BODIES
    ]
    head = (
        "Every stage writes a manifest: the command, its options, the sha256 of its parents and of "
        "its files, and a body. A manifest holds no clock, host or absolute path: the same input "
        "gives the same bytes.\n\n"
    )
    made["files.md"] = f"# Files\n\n{head}{_table(['manifest', 'files beside it'], rows)}"
    return made


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a kind of manifest."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{kind}.json of fedcli",
    }
    whole = head | _schema_of(manifest_bodies.shape(kind))
    if kind == "scores":
        whole["properties"]["body"] = scores_schema.body()
        whole["properties"]["body"]["properties"]["clinical"] = clinical_schema.schema(_schema_of)
        whole["$defs"] = scores_schema.definitions()
    return whole


def _schema_of(shape: Any) -> dict[str, Any]:
    """A shape of fedcli.shapes as JSON Schema."""
    if isinstance(shape, tuple):
        return {"anyOf": [_schema_of(allowed) for allowed in shape]}
    if isinstance(shape, list):
        return {"type": "array", "items": _schema_of(shape[0])}
    if shape is None:
        return {"type": "null"}
    if not isinstance(shape, dict):
        return {"type": JSON_TYPES[shape]}
    if str in shape:
        return {"type": "object", "additionalProperties": _schema_of(shape[str])}
    required = [key for key in shape if not key.endswith("?")]
    properties = {key.removesuffix("?"): _schema_of(inner) for key, inner in shape.items()}
    return {"type": "object", "required": required, "properties": properties}


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")
