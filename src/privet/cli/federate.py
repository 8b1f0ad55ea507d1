"""`privet federate`: several owners, one synthetic set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privet.cli.options import AsJson, print_json, print_pairs
from privet.cli.panels import Table
from privet.cli.progress import Watch
from privet.paths import absolute

if TYPE_CHECKING:
    from privet.federate import FederationResult

app = Table(
    no_args_is_help=True,
    help="Make one synthetic set of several owners' data. Nothing but noised sums leaves them.",
)

Public = Annotated[
    str, typer.Option(help="Public images that server and all parties have, image for image.")
]
Encoder = Annotated[
    str, typer.Option(help="What looks at images, as in synthesize; the same everywhere.")
]
Count = Annotated[int, typer.Option(help="How many images to make.")]
Method = Annotated[str, typer.Option(help="sps-g, sps or sps-plus, with settings after a colon.")]
Generation = Annotated[
    str,
    typer.Option(
        help="centralised: sums are added up and images made once; decentralised: each party "
        "makes images, which are put together."
    ),
]
Size = Annotated[
    float | None, typer.Option(help="The number of private images, as its owner declares it.")
]
Classes = Annotated[
    str | None, typer.Option(help="Names with commas between them; else those of --public.")
]
Resize = Annotated[str | None, typer.Option(help="Bring images to one size: 32 or 32x48.")]
Channels = Annotated[str | None, typer.Option(help="Bring images to colour or to grey: rgb, grey.")]
AtLeast = Annotated[
    int | None, typer.Option(help="Go on with so many parties; all of them by default.")
]
Seconds = Annotated[float, typer.Option(help="That a party has for an answer.")]
Attempts = Annotated[int, typer.Option(help="How often a party that is silent is asked.")]
Out = Annotated[Path, typer.Option(help="The folder; the same one again goes on.")]
Address = Annotated[str, typer.Option(help="Where the server listens: HOST:PORT.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Without encryption: on one machine, or in tests.")
]
Roots = Annotated[
    Path | None, typer.Option(help="PEM file of whoever signed the server's certificate.")
]


@app.command()
def server(
    public: Public,
    count: Count,
    parties: Annotated[int, typer.Option(help="How many are expected.")],
    epsilon: Annotated[
        float, typer.Option(help="What each is expected to spend: for sizes of the release alone.")
    ],
    delta: Annotated[float, typer.Option(help="Likewise.")],
    out: Out,
    method: Method = "sps-g",
    encoder: Encoder = "conv",
    generation: Generation = "centralised",
    declared_size: Size = None,
    classes: Classes = None,
    resize: Resize = None,
    channels: Channels = None,
    at_least: AtLeast = None,
    seconds: Seconds = 600.0,
    attempts: Attempts = 2,
    address: Address = "127.0.0.1:9092",
    insecure: Insecure = False,
    root_certificates: Roots = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM file of the server.")] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file of the server's key.")] = None,
    json: AsJson = False,
) -> None:
    """Wait for parties, and make a set of what they send. Holds no private row."""
    from privet.federate import Server
    from privet.federate.deployment import Link, serve
    from privet.federate.requirements import require_flower

    require_flower()
    asked = Server(
        out=_placed(out),
        public=_source(public),
        count=count,
        parties=parties,
        epsilon=epsilon,
        delta=delta,
        method=method,
        encoder=encoder,
        generation=generation,
        declared_size=declared_size,
        classes=classes,
        resize=resize,
        channels=channels,
        at_least=at_least,
        seconds=seconds,
        attempts=attempts,
    )
    link = Link(
        address=address,
        insecure=insecure,
        root_certificates=_file(root_certificates),
        certificate=_file(certificate),
        key=_file(key),
    )
    _show(serve(asked, link), json)


@app.command()
def client(
    data: Annotated[str, typer.Argument(metavar="DATA", help="The party's private images.")],
    party: Annotated[str, typer.Option(help="The name by which others know it.")],
    public: Public,
    epsilon: Annotated[float, typer.Option(help="The ε that the party spends in all.")],
    delta: Annotated[float, typer.Option(help="The δ of its guarantee.")],
    out: Out,
    encoder: Encoder = "conv",
    relation: Annotated[
        str, typer.Option(help="Which of its data sets are neighbours: add-remove, replace-one.")
    ] = "add-remove",
    ledger: Annotated[
        Path | None, typer.Option(help="The owner's ledger; else DIR gets one of its own.")
    ] = None,
    declared_size: Size = None,
    resize: Resize = None,
    channels: Channels = None,
    address: Address = "127.0.0.1:9092",
    insecure: Insecure = False,
    root_certificates: Roots = None,
) -> None:
    """Answer a server with noised sums, each paid for once. Runs until you stop it."""
    from privet.federate import Party
    from privet.federate.deployment import Link, take_part
    from privet.federate.requirements import require_flower

    require_flower()
    own = Party(
        name=party,
        data=_source(data),
        public=_source(public),
        encoder=encoder,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        out=_placed(out),
        ledger=_file(ledger),
        declared_size=declared_size,
        resize=resize,
        channels=channels,
    )
    link = Link(address=address, insecure=insecure, root_certificates=_file(root_certificates))
    take_part(own, link)


@app.command()
def simulate(
    party: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=PATH[,epsilon=E,…]",
            help="One for each party: its private images, and what it has of its own.",
        ),
    ],
    public: Public,
    count: Count,
    epsilon: Annotated[float, typer.Option(help="The ε of parties that have none of their own.")],
    delta: Annotated[float, typer.Option(help="Likewise.")],
    out: Out,
    method: Method = "sps-g",
    encoder: Encoder = "conv",
    generation: Generation = "centralised",
    relation: Annotated[str, typer.Option(help="add-remove or replace-one.")] = "add-remove",
    declared_size: Size = None,
    classes: Classes = None,
    resize: Resize = None,
    channels: Channels = None,
    at_least: AtLeast = None,
    seconds: Seconds = 600.0,
    attempts: Attempts = 2,
    noise_seed: Annotated[
        int | None, typer.Option(help="For tests: parties are certified as NOT private.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Run a whole federation on this machine. Flower's simulation engine conducts it."""
    from privet.federate import Server
    from privet.federate.flower import simulate as run
    from privet.federate.party import simulated_parties
    from privet.federate.requirements import require_flower
    from privet.runs.run_folder import PARTIES

    require_flower(simulation=True)
    place = Path(_placed(out))
    images: dict[str, Any] = {"public": _source(public), "encoder": encoder}
    images |= {"resize": resize, "channels": channels}
    common = {**images, "epsilon": epsilon, "delta": delta, "relation": relation}
    own = simulated_parties(party, {**common, "noise_seed": noise_seed}, place / PARTIES)
    asked = Server(
        out=str(place / "server"),
        count=count,
        parties=len(own),
        epsilon=epsilon,
        delta=delta,
        method=method,
        generation=generation,
        declared_size=declared_size,
        classes=classes,
        at_least=at_least,
        seconds=seconds,
        attempts=attempts,
        **images,
    )
    with Watch(bar=not json) as watch:
        result = run(asked, own, watch)
    _show(result, json)


def _show(result: FederationResult, json: bool) -> None:
    if json:
        print_json(result.to_json())
        return
    print_pairs(result.in_words())


def _source(text: str) -> str:
    """A built-in name, or a path that is found from any folder; a number stays one."""
    from privet.runs.data_choice import DataChoice

    return DataChoice(source=text, public=text).placed().public or text


def _placed(path: Path) -> str:
    return absolute(path)


def _file(path: Path | None) -> str | None:
    return None if path is None else _placed(path)
