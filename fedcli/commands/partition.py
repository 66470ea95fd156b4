"""fedcli partition."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from . import options as o
from .chain import default_scheme


def partition(
    dataset: Annotated[
        str | None, typer.Argument(help="dataset manifest; default: the newest under --work, - reads stdin")
    ] = None,
    dirichlet: o.Dirichlet = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="with --dirichlet: clients of equal size")] = False,
    minimum: Annotated[
        int, typer.Option(min=0, help="images each client must have; --balanced sees to it, others are refused")
    ] = 0,
    iid: Annotated[bool, typer.Option("--iid", help="every client a random share")] = False,
    shards: Annotated[int | None, typer.Option(min=1, help="label shards per client")] = None,
    by: o.By = None,
    shares: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SHARE,...",
            help="with --by: which part of each value's images the row's clients get, such as 0.9,0.1; one row stands for its rotations",
        ),
    ] = None,
    fedism: Annotated[
        int | None,
        typer.Option(min=1, metavar="CORRUPTED", help="the FedISM authors' two groups; CORRUPTED clients come last"),
    ] = None,
    portion: Annotated[
        float | None,
        typer.Option(help="with --by: FedHEAL's clients, evenly over the values, each with this portion of its own"),
    ] = None,
    fedmrl: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="ETA", help="FedMRL's shards, by odds of ETA for a client's own class"),
    ] = None,
    fedmrl_authors: Annotated[
        bool, typer.Option("--fedmrl-authors", help="as FedMRL's authors draw: near alike, and sharing images")
    ] = False,
    clients_file: Annotated[
        Path | None, typer.Option(help="who holds which image: a CSV, {client: [id, ...]} as JSON, or FedISM's .npy")
    ] = None,
    client_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="of a CSV; default: client, center, site, hospital or node")
    ] = None,
    order_file: Annotated[
        Path | None, typer.Option(help="the train.csv whose rows an .npy means; default: training images by class")
    ] = None,
    keep_units: Annotated[
        bool, typer.Option("--keep-units", help="whole patients or lesions to a client, in the random schemes")
    ] = False,
    clients: o.Clients = None,
    val: o.Val = 0.0,
    materialize: Annotated[
        bool, typer.Option("--materialize", help="write one file per client, to send to a site")
    ] = False,
    work: o.Work = o.DEFAULT_WORK,
    out: o.Out = None,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Divide a dataset's training images among clients; only row numbers are written.

    Without a scheme the dataset's own sites are the clients if it has them, else it is --dirichlet 1 over its usual
    number of clients; with --clients, --balanced or --keep-units alone it is --dirichlet 1 too.

    Examples: fedcli partition --by center; fedcli partition --dirichlet 1.0 --clients 20
    """
    from ..data import manifest
    from ..data.partition import make_partition

    o.refuse_together(
        iid=iid, shards=shards, by=by, fedism=fedism, balanced=balanced, fedmrl=fedmrl is not None, fedmrl_authors=fedmrl_authors,
        clients_file=clients_file,
    )  # fmt: skip
    if dirichlet is not None and (iid or shards or by or fedmrl is not None or fedmrl_authors or clients_file):
        raise UsageError(
            "--dirichlet is one scheme, --iid, --shards, --by and others are other ones", "give one of them"
        )
    if (order_file or client_column) and not clients_file:
        flag = "--order-file" if order_file else "--client-column"
        raise UsageError(f"{flag} is about a file of clients", "add --clients-file FILE")
    o.refuse_together(clients_file=clients_file, clients=clients)
    if (shares or portion) and not by:
        flag = "--shares" if shares else "--portion"
        raise UsageError(f"{flag} needs to know which attribute it is about", "add --by ATTRIBUTE")
    o.refuse_together(shares=shares, portion=portion)
    if by and clients and not (shares or portion):
        raise UsageError(
            "--by makes one client per value, so --clients has no effect", "leave it out, or add --portion or --shares"
        )
    path = o.source(dataset, work, "dataset")
    body = manifest.read(path, "dataset").body
    asked = {
        "dirichlet": dirichlet, "balanced": balanced, "iid": iid, "shards": shards, "by": by, "shares": shares,
        "portion": portion, "fedism": fedism, "fedmrl": fedmrl, "fedmrl_authors": fedmrl_authors,
        "clients_file": clients_file and clients_file.name, "client_column": client_column,
        "order_file": order_file and order_file.name, "keep_units": keep_units,
    }  # fmt: skip
    if clients is None and all(given is None or given is False or given == [] for given in asked.values()):
        asked |= default_scheme(body)
        by, clients = asked["by"], asked.pop("clients", None)
    count = clients or body["clients"]
    made = make_partition(
        path, work=work, out=out, scheme=_scheme(asked), clients=count, alpha=1.0 if dirichlet is None else dirichlet,
        by=by or [], shares=shares or [], shards=shards or 2, portion=portion or 0.1, val=val, minimum=minimum,
        corrupted=fedism, eta=1.0 if fedmrl is None else fedmrl, keep_units=keep_units, file=clients_file,
        order_file=order_file, client_column=client_column, seed=seed, materialize=materialize,
        made_by=o.command(
            "partition", **asked, clients=clients, minimum=minimum or None, val=val or None, seed=seed or None,
            materialize=materialize,
        ),
    )  # fmt: skip
    o.show(made, json)


def _scheme(asked: dict[str, Any]) -> str:
    """The scheme that the flags mean."""
    if asked["by"]:
        return "shares" if asked["shares"] else "domains" if asked["portion"] else "by"
    if asked["clients_file"]:
        return "file"
    for scheme in ("iid", "shards", "fedism", "fedmrl", "fedmrl-authors"):
        given = asked[scheme.replace("-", "_")]
        if given is not None and given is not False:  # an eta of 0 is given
            return scheme
    return "dirichlet-balanced" if asked["balanced"] else "dirichlet"
