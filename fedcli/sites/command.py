"""fedcli site."""

import json as text
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from .. import console
from ..commands.shell import common as o
from ..commands.shell.shown import show_json
from ..common_options import NAME, OUTPUT
from ..errors import UsageError
from ..options import Flag
from ..stages.call import source
from ..system import terminal

if TYPE_CHECKING:
    from .description import Described
    from .policy import Policy, Privacy
    from .site import Site

# The memory of a site holds how much privacy was spent, and lies below --work by the name of the
# site.
TRUSTED = Flag(access="trusts")


def site(
    action: Annotated[
        Literal["run", "describe", "check", "stop", "job"],
        "run: take part; describe: print the description that is sent; check: show what "
        "may leave, send nothing; stop: end the process that takes part; job: write a "
        "job of NVFlare or an app of Flower, at the coordinator",
        NAME,
    ] = "run",
    words: Annotated[
        Sequence[str],
        "of job: nvflare or flower, then descriptions of sites, a folder of them, or a run",
        Flag("[nvflare|flower SITES...]", argument=True, access="reads"),
    ] = (),
    data: Annotated[
        Path | None, "partition or corruption manifest", Flag("MANIFEST", access="trusts")
    ] = None,
    client: Annotated[
        str | None, "client whose images this site holds; default: the only one", TRUSTED
    ] = None,
    name: Annotated[
        str | None, "name of the site in the federation; default: the client's", TRUSTED
    ] = None,
    policy: Annotated[
        Path | None, "policy.toml: what the site allows", Flag("FILE", access="trusts")
    ] = None,
    socket: Annotated[Path | None, "socket to listen at", Flag("PATH", access="trusts")] = None,
    nvflare: Annotated[
        Path | None,
        "answer the jobs of NVFlare's client of this hospital",
        Flag("PROFILE", access="trusts"),
    ] = None,
    state: Annotated[
        Path | None,
        "memory and audit file; default: --work/site/NAME",
        Flag("FOLDER", access="trusts"),
    ] = None,
    device: Annotated[str, "cpu, cuda or cuda:N"] = "cpu",
    quality: Annotated[
        bool,
        "with describe: also histograms of the images' noise, sharpness and so on, as far as the "
        "policy allows",
    ] = False,
    out: Annotated[
        Path | None,
        "file for the description; of job: folder for the files",
        Flag("PATH", typed="out -o", access="writes"),
    ] = None,
    sockets: Annotated[
        Path,
        "of job: folder at the server in which the job listens for `fedcli train`",
        Flag("DIR", access="trusts"),
    ] = Path("/run/fedcli"),
    idle: Annotated[int, "of job: seconds without a coordinator after which it ends, >= 1"] = 600,
    attach: Annotated[
        Path,
        "of job: folder at a hospital in which NVFlare and `fedcli site` meet",
        Flag("DIR", access="trusts"),
    ] = Path("/var/lib/fedcli/attach"),
    force: o.Force = False,
    work: Annotated[
        Path, "folder of all results", Flag(local=True, panel=OUTPUT, access="trusts")
    ] = o.DEFAULT_WORK,
    json: o.Json = False,
) -> None:
    """Take part in a federation, with images that stay here.

    A coordinator elsewhere sends the model, and this site trains it. Its policy limits what may
    leave.

    A job of NVFlare, or an app of Flower, serves every run of its sites, whatever the method.
    Neither package is needed to write it, and no code travels.

    Examples: fedcli site describe --client client-00 --out client-00.json; fedcli site check
    --client client-00; fedcli site stop --client client-00; fedcli site job nvflare described
    --out job; fedcli site job flower described --out app --sockets /run/fedcli
    """
    if action == "job":
        from . import job

        job.write(words, out, sockets=sockets, idle=idle, attach=attach)
        return
    if words:
        command = f"fedcli site {action}"
        raise UsageError(
            f"`{command}` takes no {words[0]}: only `fedcli site job` has further words",
            f"a partition or corruption is given by --data: {command} --data MANIFEST",
        )
    if action == "stop":
        _stop(state, name or client, work)
        return
    from . import description
    from . import policy as policies
    from .site import Site

    if quality and action != "describe":
        raise UsageError("--quality is for describe", "fedcli site describe --quality")
    if action == "describe" and out:
        _check_out(out, force=force)
    path = source(data, work, "corruption", "partition")
    allowed = policies.read(policy)
    folder = state or work / "site" / (name or description.held_by(path, client))
    own_site = Site(
        path,
        folder,
        client=client,
        name=name,
        policy=allowed,
        device=device,
    )
    content = own_site.description
    _say_shared_patients(content)
    if action == "describe":
        if quality:
            content = _with_quality(content, path, own_site)
        _give_description(content, out, force=force, as_json=json)
    elif action == "run":
        _run(own_site, socket, nvflare)
    elif json:
        show_json({"description": content, "policy": asdict(allowed)})
    else:
        _check(own_site)


def _with_quality(content: "Described", path: Path, site: "Site") -> dict[str, object]:
    """The description with histograms of image quality. Raises UsageError where the policy allows
    none.
    """
    from . import description

    images = content["images"]
    site.policy.check_quality(images["train"] + images["val"])
    smallest = site.policy.smallest_cell
    return {**content, "quality": description.quality(path, site.client, smallest)}


def _give_description(
    content: "Described",
    out: Path | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Print the description, or write it to a file that a person names."""
    written = text.dumps(
        content,
        indent=1,
        sort_keys=True,
        ensure_ascii=False,
    )
    if out:
        o.write_named(out, f"{written}\n".encode(), force=force)
    if out is None or as_json:
        print(written)
    else:
        console.result(str(out))


def _say_shared_patients(content: "Described") -> None:
    """Warn of patients of test images who also have training images, as a coordinator reads it."""
    from ..data import shared_patients

    text = shared_patients.sentence(content.get(shared_patients.KEY))
    if text:
        console.warn(text)


def _check_out(out: Path, *, force: bool) -> None:
    """Refuse a file that no description may be written to. Raises FedcliError, UsageError."""
    if out.suffix != ".json":
        raise UsageError(
            f"--out {out}: a description is a .json file",
            "name it so: --sites FOLDER reads no other",
        )
    o.check_named(out, force=force)


def _run(site: "Site", socket: Path | None, nvflare: Path | None) -> None:
    """Answer questions until the process is interrupted. Raises FedcliError, UsageError."""
    from .sockets import serve, serve_nvflare

    o.refuse_together(socket=socket, nvflare=nvflare)
    if nvflare:
        serve_nvflare(site, nvflare)
    elif socket:
        serve(site, socket)
    else:
        hint = "give --socket PATH, such as --socket sites/hospital-a.sock, or --nvflare PROFILE"
        raise UsageError("a site needs a socket, or a profile of NVFlare, to be reached by", hint)


def _stop(state: Path | None, name: str | None, work: Path) -> None:
    """Stop the site of a folder, of a name, or the only one. Raises FedcliError, UsageError."""
    from . import running

    folder = state or running.folder_of(work, name)
    running.stop(folder)
    console.say(f"the site of {folder} was stopped")


def _check(site: "Site") -> None:
    """Print what may leave a site, and the counts of its description."""
    parts = [part for part, images in site.description["images"].items() if images]
    counts = []
    for column, cells in site.description["counts"].items():
        heading = column
        for value in dict.fromkeys(chain(*cells.values())):
            row = [heading, value]
            for part in parts:
                count = cells.get(part, {}).get(value, 0)
                row.append("hidden" if count is None else str(count))
            counts.append(row)
            heading = ""
    print(
        f"Site {site.name}: what may leave it under this policy. Nothing was sent and no "
        "coordinator was asked.\n"
    )
    terminal.table(["", "under this policy"], _allowed(site))
    title = "Counts in the description, which is sent once:"
    terminal.table(["images by", "", *parts], counts, title=title)
    privacy = site.policy.privacy
    if privacy and not privacy.answers:
        console.warn(
            f"not even one answer stays within epsilon {privacy.epsilon:g}: raise noise or epsilon"
        )


def _allowed(site: "Site") -> list[list[str]]:
    """The table of what may leave: subject and words."""
    policy = site.policy
    images = site.description["images"]
    model = "the model trained here"
    if policy.privacy is None:
        model += ", its mean training loss"
    methods = ", ".join(policy.methods) or "every method"
    audit_path = site.folder / "audit.jsonl"
    return [
        ["stays here", "the images, their file names, and the ids of images and patients"],
        [
            "sent once",
            f"the counts below (those under {policy.smallest_cell} are hidden, and others that "
            "would reveal them), how many patients of test images also have training images if "
            "patients are known, names of classes and groups, size and channels of the images, a "
            "checksum of the data, software versions",
        ],
        [
            "sent each round",
            f"{model}, the number of training images ({images['train']}) and of training steps",
        ],
        ["form of the model", _form(policy)],
        ["noise", _noise(policy.privacy, site.folder)],
        ["further numbers", _columns(policy)],
        ["image quality", _quality(policy)],
        ["evaluation", _scores(policy, images["test"])],
        ["methods", methods],
        ["limits", _limits(policy)],
        ["record", f"{audit_path} has a line for every answer that is sent"],
    ]


def _form(policy: "Policy") -> str:
    form = "The model is sent as it is, not masked: the coordinator sees the model of this site."
    if policy.secure_aggregation:
        form = (
            "The model is sent only masked; the server sees the sum over at least "
            f"{policy.smallest_sum} sites."
        )
    if policy.gradients:
        return (
            f"{form} The policy allows rounds of one training step, whose update is nearly a "
            "gradient and can reveal images."
        )
    return f"{form} A model after a single training step is not sent, since it shows the gradient."


def _limits(policy: "Policy") -> str:
    limits = "any number of rounds"
    if policy.maximum_rounds:
        limits = f"at most {policy.maximum_rounds} rounds of a training"
    if policy.minimum_images:
        limits += f"; at least {policy.minimum_images} training images here"
    return limits


def _columns(policy: "Policy") -> str:
    allowed = policy.allowed_columns
    if allowed is None:
        return (
            "all that a method reports in addition to the model, such as class counts, "
            "losses of groups or spectra of images; the policy does not limit them"
        )
    if not allowed:
        return "none: a method that reports more than the model is refused"
    words = f"only {', '.join(allowed)}"
    return f"{words}; the noise does not cover them" if policy.privacy else words


def _noise(privacy: "Privacy | None", folder: Path) -> str:
    """The reach of noise, how many answers may leave with it and what they have revealed."""
    from .policy import LEDGER, read_ledger

    if privacy is None:
        return "No noise is added to the model."
    answered, revealed = read_ledger(folder / LEDGER)
    count = len(answered)
    spent = max(revealed, privacy.spent(count))  # the policy may have had less noise
    deviation = privacy.noise * privacy.clip
    spent_by_one = privacy.spent(1)
    return (
        f"The change of the model is clipped to norm {privacy.clip:g}; normal noise with standard "
        f"deviation {deviation:g} is added. Differential privacy for all "
        f"patients of this site together: at most epsilon {privacy.epsilon:g} at delta "
        f"{privacy.delta:g}, which allows {privacy.answers:,} answers, one each round. The first "
        f"answer spends {spent_by_one:.3g}. Sent so far: {count:,} answers, epsilon "
        f"{spent:.3g}."
    )


def _quality(policy: "Policy") -> str:
    """Histograms that leave where a person describes the site with --quality."""
    if not policy.allows_quality:
        return "Nothing: `site describe --quality` is refused."
    return (
        "only with `site describe --quality`: histograms of noise, sharpness and the like over all "
        f"its images, in cells of at least {policy.smallest_cell}"
    )


def _scores(policy: "Policy", images: int) -> str:
    if not policy.allows_scores:
        return "Nothing about the test images is sent. `fedcli evaluate` over the sites is refused."
    if not images:
        return (
            "It would be refused: this client has no test images. `fedcli partition --by SITE`, "
            "where SITE is the attribute that names the hospital, gives each client its own; "
            "`--clients 1` gives all to the only client."
        )
    return (
        f"For each model: counts of the {images} test images by true and predicted class, and "
        "histograms of predicted probabilities, over all images and for each group. Left out: "
        f"classes, and classes of a group, of fewer than {policy.smallest_cell} images, and others "
        "that would reveal them. `scores = false` in the policy refuses this."
    )
