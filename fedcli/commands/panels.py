"""A command whose help lists its options under headings."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand

from .. import extensions
from . import defaults

PANELS = {
    "Training": """rounds epochs batch_size optimizer lr momentum weight_decay schedule warmup nesterov clip_norm
        keep_optimizer label_smoothing class_weights loss sampling augment participation seed eval_every patience
        resume force dp_noise dp_sgd dp_clip dp_delta""",
    "Method": "set prior model weights teacher freeze_backbone server_optimizer then personal single_site bn",
    "Data": """raw sample no_sample sample_images stratified attributes size fit clahe scaled_decoding window test split
        split_file fold folds strict table image_column label_column multi_label group site patient unknown clients val
        dirichlet minimum keep_units hold_out map_classes all_images cross_site clinical positive rule cost corrupt
        severity ratio on by shots noise rate flip hide share client""",
    "Machine": "device precision threads engine jobs at_once sites timeout min_clients checkpoint_every",
    "Output": """work out name at choose interval spread separate against export format metric minutes bytes track
        figures draw card evidence materialize dry_run json quiet debug help""",
}
PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names.split()}
MANY = 15  # options, from which on a list needs headings
ANYWHERE = [  # of the whole program, wherever they stand in the line
    ("--log-file FILE", "also append every message with its time to this file"),
    ("--code FILE", extensions.CODE),
]


class Command(TyperCommand):
    """Options under headings where there are many; those that were not typed are named when it runs."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # its own click's
        records = {_name(parameter): parameter.get_help_record(ctx) for parameter in self.get_params(ctx)}
        arguments = [p.name for p in self.get_params(ctx) if p.param_type_name == "argument"]
        options = [name for name in records if name not in arguments and records[name]]
        trains = "rounds" in options
        sections: dict[str, list[Any]] = {"Arguments": [records[name] for name in arguments if records[name]]}
        for panel in ("Options", *PANELS) if len(options) >= MANY else ("Options",):
            sections[panel] = [
                records[name] for name in options if len(options) < MANY or _panel(name, trains) == panel
            ]
        sections[list(sections)[-1]] += ANYWHERE
        for title, lines in sections.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its own click's
        """Name where a value comes from that cannot be and was not typed."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            name = getattr(error.param, "name", None) or ""
            if defaults.is_default(ctx, name):
                error.add_note(f" (this value is from {defaults.origin(name)})")
            raise

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # its own click's
        defaults.say(ctx)
        extensions.allow(_typed(ctx))
        return super().invoke(ctx)


def _typed(ctx: typer.Context) -> Iterator[str]:
    """Words typed for options and for single arguments; not for lists of files, which a shell's pattern may fill."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = getattr(ctx.get_parameter_source(name), "name", "")
        if source == "COMMANDLINE" and (parameter.param_type_name == "option" or parameter.nargs == 1):
            value = ctx.params[name]
            yield from map(str, value if isinstance(value, list | tuple) else [value])


def _name(parameter: Any) -> str | None:
    """Some versions of click call --help otherwise."""
    return "help" if "--help" in parameter.opts else parameter.name


def _panel(name: str | None, trains: bool) -> str:
    """The heading of an option; in a command that trains nothing, its seed and --set are about the data."""
    panel = PANEL_OF.get(name or "", "Options")
    return "Data" if not trains and panel in ("Training", "Method") else panel
