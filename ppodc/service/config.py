"""Configuration of the parties, one TOML file each (written in `ppodc.service.config_text`).

Files are typed and strict: an unknown key, a missing one or a wrong type is refused by name.
Paths are relative to the folder of the file. A configuration holds public keys only; secrets stay
in key files beside it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta

from ppodc.errors import ConfigError, InputError
from ppodc.names import Name
from ppodc.service.addresses import (
    PATTERN,
    check_address,
    check_loopback,
    check_ports,
    collide,
)
from ppodc.service.config_errors import sentence
from ppodc.service.quotas import Quotas
from ppodc.toml_document import parse_toml
from ppodc.transport.call_server import Peer

_MAX_BYTES = 1 << 20
_Z85 = r"^[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}$"

PublicKeyText = Annotated[str, Meta(pattern=_Z85)]

# tables that several files have
_Operators = Annotated[
    dict[Name, PublicKeyText], Meta(description="Who may create datasets: name = public key.")
]
_Owners = Annotated[
    dict[Name, PublicKeyText],
    Meta(description="Who may call as an owner, if a spec names the key: name = key."),
]
_Auditors = Annotated[
    dict[Name, PublicKeyText], Meta(description="Who may read the whole ledger: name = public key.")
]
_FormerKeys = Annotated[
    dict[Name, tuple[PublicKeyText, ...]],
    Meta(description="Earlier keys of owners, now refused: name = [keys]. Their datasets stay."),
]
_Quotas = Annotated[
    Quotas, Meta(description="How much an owner may upload, and how long data are kept.")
]


class Remote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cloud as seen by another party."""

    endpoint: Annotated[
        str, Meta(pattern=PATTERN, description="Where this cloud listens: tcp://host:port.")
    ]
    public_key: Annotated[
        PublicKeyText, Meta(description="This cloud's public key; any other cloud is refused.")
    ]


class Caller(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cloud that calls, and is never called."""

    public_key: Annotated[PublicKeyText, Meta(description="The public key of cloud 1.")]


class _Listening(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a party that is called, and limits of its callers."""

    listen: Annotated[
        str,
        Meta(
            pattern=PATTERN,
            description="Where the service listens; port 0 takes a free one, * all interfaces.",
        ),
    ]
    key: Annotated[
        Path, Meta(description="This cloud's key pair: KEY.secret (mode 0600) and KEY.public.")
    ]
    store: Annotated[
        Path, Meta(description="Folder of shares, job state and ledger; this user's alone.")
    ]
    health: Annotated[
        str,
        Meta(description='Health and metrics over HTTP, on loopback: "127.0.0.1:9464"; "" = off.'),
    ] = ""
    connections: Annotated[
        int,
        Meta(ge=16, le=65536, description="Connections at the same time, of all callers."),
    ] = 1024
    key_connections: Annotated[
        int, Meta(ge=1, le=4096, description="Connections of one key; a further one is refused.")
    ] = 32
    key_requests: Annotated[
        int, Meta(ge=1, le=4096, description="Requests of one key that wait or run.")
    ] = 32
    key_megabytes: Annotated[
        int,
        Meta(ge=9, le=4096, description="Megabytes of one key on their way in or out."),
    ] = 16
    megabytes: Annotated[
        int,
        Meta(ge=16, le=65536, description="The same of all keys; memory follows this number."),
    ] = 64


class _Service(_Listening, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of both clouds."""

    pools: Annotated[
        Path, Meta(description="Folder on the workers' machines for randomness made ahead.")
    ] = Path("pools")
    silent_supplies: Annotated[
        bool,
        Meta(
            description='Does this cloud take part in jobs with supplies = "silent", which rest on '
            "one more assumption (regular LPN)?"
        ),
    ] = False
    ray_address: Annotated[
        str,
        Meta(
            min_length=1,
            description='Ray of this cloud: "local" starts one, "auto" finds it, or host:port.',
        ),
    ] = "local"
    insecure_key_bits: Annotated[
        int,
        Meta(
            ge=0, le=1024, description="Only for trials: size of an insecure Paillier key; 0 = off."
        ),
    ] = 0
    paillier_share: Annotated[
        Path | None,
        Meta(description="This cloud's share of a split Paillier key (mode 0600), for that suite."),
    ] = None
    quotas: _Quotas = Quotas()


class Cloud1Config(_Service, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """cloud1.toml: the gateway of cloud 1 and the master."""

    role: Literal["cloud1"] = "cloud1"
    pairs: Annotated[
        int,
        Meta(
            ge=1,
            le=512,
            description="Worker pairs of a job that does not name a number; one is right for "
            "100,000 records.",
        ),
    ] = 1
    shards_per_pair: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="Shards for each pair: more show progress finer and move faster.",
        ),
    ] = 4
    paillier_public: Annotated[
        Path | None, Meta(description="Cloud 2's Paillier public key, for the paillier suite only.")
    ] = None
    cloud2_workers: Annotated[
        tuple[str, ...],
        Meta(description="Hosts or networks of cloud 2's workers; none = only cloud 2's own host."),
    ] = ()
    cloud2: Annotated[Remote, Meta(description="The other cloud.")]
    operators: _Operators = {}
    owners: _Owners = {}
    former_keys: _FormerKeys = {}
    auditors: _Auditors = {}


class Cloud2Config(_Service, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """cloud2.toml: the gateway of cloud 2 and its workers."""

    role: Literal["cloud2"] = "cloud2"
    listen_control: Annotated[
        str,
        Meta(
            pattern=PATTERN,
            description="Where cloud 1, and nobody else, calls: a port apart from the owners'.",
        ),
    ]
    max_pairs: Annotated[
        int, Meta(ge=1, le=512, description="At most this many workers for one job of cloud 1.")
    ] = 64
    worker_host: Annotated[
        str,
        Meta(
            min_length=1,
            description='Address the workers listen on and are reached at; "node": as Ray has it.',
        ),
    ] = "127.0.0.1"
    worker_ports: Annotated[
        tuple[int, int], Meta(description="First and last port for workers; [0, 0] = any free one.")
    ] = (0, 0)
    suites: Annotated[
        tuple[Name, ...],
        Meta(
            min_length=1,
            description='Suites of protocols that cloud 1 may ask for: "shares", "paillier".',
        ),
    ] = ("shares",)
    paillier_secret: Annotated[
        Path | None,
        Meta(description="The Paillier secret key (mode 0600), for the paillier suite only."),
    ] = None
    cloud1: Annotated[Caller, Meta(description="The other cloud, which runs the jobs.")]
    operators: _Operators = {}
    owners: _Owners = {}
    former_keys: _FormerKeys = {}
    auditors: _Auditors = {}


class CollectorConfig(_Listening, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """collector.toml: cloud 1 alone, which collects perturbed reports and clusters them."""

    role: Literal["collector"] = "collector"
    key: Annotated[
        Path, Meta(description="The collector's key pair: KEY.secret (mode 0600) and KEY.public.")
    ]
    store: Annotated[
        Path, Meta(description="Folder of reports, job state and ledger; this user's alone.")
    ]
    ray_address: Annotated[
        str,
        Meta(
            description='Ray whose workers count reports: "local", "auto" or host:port; "": none.'
        ),
    ] = ""
    workers: Annotated[
        int, Meta(ge=1, le=4096, description="Workers of a job that does not say how many.")
    ] = 2
    quotas: _Quotas = Quotas()
    operators: _Operators = {}
    owners: _Owners = {}
    former_keys: _FormerKeys = {}
    auditors: _Auditors = {}


class OwnerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """owner.toml, operator.toml or auditor.toml: someone who calls both clouds."""

    role: Literal["owner", "operator", "auditor"] = "owner"
    name: Annotated[Name, Meta(description="The name both clouds know this key by.")]
    key: Annotated[
        Path, Meta(description="This party's key pair: KEY.secret (mode 0600) and KEY.public.")
    ]
    uploads: Annotated[
        Path, Meta(description="Folder that remembers unfinished uploads; as secret as the data.")
    ] = Path("uploads")
    privacy: Annotated[
        Path, Meta(description="Folder of the privacy budget and of the secret report key.")
    ] = Path("privacy")
    max_epsilon: Annotated[
        float, Meta(gt=0, description="Most that all perturbed uploads together may spend.")
    ] = 10.0
    max_exact_releases: Annotated[
        int, Meta(ge=1, description="Most exact jobs over the same columns that get rows.")
    ] = 20
    timeout: Annotated[
        float, Meta(gt=0, le=3600, description="Seconds to wait for a cloud that does not answer.")
    ] = 30.0
    cloud1: Annotated[Remote, Meta(description="Cloud 1: takes the shares.")]
    cloud2: Annotated[Remote | None, Meta(description="Cloud 2: takes the seeds.")] = None


_WHOSE = {
    "cloud1": "cloud 1",
    "cloud2": "cloud 2",
    "collector": "a collector",
    "owner": "an owner",
    "operator": "an operator",
    "auditor": "an auditor",
}
_CALLERS = ("owner", "operator", "auditor")
CloudConfig = Cloud1Config | Cloud2Config | CollectorConfig
_Config = TypeVar("_Config", Cloud1Config, Cloud2Config, CollectorConfig, OwnerConfig)
_FOLDERS: dict[type, tuple[str, ...]] = {
    Cloud1Config: ("pools",),
    Cloud2Config: ("pools",),
    OwnerConfig: ("uploads", "privacy"),
}


def load(path: str | Path, kind: type[_Config]) -> _Config:
    """The configuration in this file; InputError names the key that is wrong."""
    path = Path(path)
    document = _read(path)
    _check_role(path, document, kind)
    folder = path.resolve().parent

    def resolve(wanted: type, value: Any) -> Any:
        if wanted is not Path or not isinstance(value, str) or not value:
            raise ConfigError("a path must be a text that is not empty")
        return folder / value

    try:
        _check_addresses(document)
        # defaults that are paths, and so relative to the file
        for place in _FOLDERS.get(kind, ()):
            document.setdefault(place, place)
        config: _Config = msgspec.convert(document, kind, dec_hook=resolve)
        if isinstance(config, Cloud2Config):
            check_ports("worker_ports", *config.worker_ports)
        if isinstance(config, Cloud1Config | Cloud2Config):
            _check_paillier(config)
    except InputError as error:
        raise ConfigError(f"{path}: {error}.") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {sentence(error, kind)}.") from error
    if not isinstance(config, OwnerConfig):
        peers(config)  # refuses a key under two names
    return config


def load_any(path: str | Path) -> CloudConfig | OwnerConfig:
    """The configuration in this file, whoever's it is: its role says."""
    role = _read(Path(path)).get("role")
    if role in ("cloud1", "collector"):
        return load_first(path)
    if role == "cloud2":
        return load(path, Cloud2Config)
    if role in _CALLERS:
        return load(path, OwnerConfig)
    raise ConfigError(f"{path} is no configuration of ppodc: its role is {role!r}.")


def load_cloud(path: str | Path) -> CloudConfig:
    """The configuration of a cloud, whichever it is."""
    config = load_any(path)
    if isinstance(config, OwnerConfig):
        raise ConfigError(f"{path} is the configuration of {_WHOSE[config.role]}, not of a cloud.")
    return config


def load_first(path: str | Path) -> Cloud1Config | CollectorConfig:
    """The configuration of cloud 1: beside another cloud, or alone, as its role says."""
    document = _read(Path(path))
    _check_role(Path(path), document, Cloud1Config, CollectorConfig)
    if document["role"] == "collector":
        return load(path, CollectorConfig)
    return load(path, Cloud1Config)


def _read(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(path.read_bytes()[:_MAX_BYTES].decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text.") from error
    except InputError as error:
        raise ConfigError(f"{path}: {error}.") from error


def _check_addresses(document: Mapping[str, Any]) -> None:
    """In words, before the types are checked; what is no text or table is theirs to refuse."""
    named = {key: document.get(key) for key in ("listen", "listen_control")}
    for cloud in ("cloud1", "cloud2"):
        remote = document.get(cloud)
        named[f"{cloud}.endpoint"] = remote.get("endpoint") if isinstance(remote, dict) else None
    given = {key: value for key, value in named.items() if isinstance(value, str)}
    for key, value in given.items():
        check_address(key, value)
    if {"listen", "listen_control"} <= given.keys() and collide(
        given["listen"], given["listen_control"]
    ):
        raise ConfigError("listen and listen_control must be two ports")
    if isinstance(health := document.get("health"), str):
        check_loopback("health", health)


def _check_paillier(config: Cloud1Config | Cloud2Config) -> None:
    name = "paillier_secret" if isinstance(config, Cloud2Config) else "paillier_public"
    if config.paillier_share is not None and getattr(config, name) is not None:
        raise ConfigError(f"{name} and paillier_share are two keys: keep one of them")
    if not isinstance(config, Cloud2Config) or "paillier" not in config.suites:
        return
    if config.paillier_secret is None and config.paillier_share is None:
        raise ConfigError(
            "suites name paillier, which needs a key: set paillier_secret or paillier_share"
        )


def _check_role(path: Path, document: Mapping[str, Any], *kinds: type) -> None:
    role = document.get("role")
    roles = [name for kind in kinds for name in get_args(get_type_hints(kind)["role"])]
    if role in roles:
        return
    wanted = " or ".join(_WHOSE[name] for name in roles)
    if role in _WHOSE:
        raise ConfigError(
            f"{path} is the configuration of {_WHOSE[role]}; this needs that of {wanted}."
        )
    known = " or ".join(f'role = "{name}"' for name in roles)
    raise ConfigError(f"{path} does not say that it is the configuration of {wanted}: {known}.")


def owners_of(config: CloudConfig) -> dict[bytes, Peer]:
    """Owners, operators and auditors of this cloud, by public key."""
    return {key: peer for key, peer in peers(config).items() if peer.role in _CALLERS}


def peers(config: CloudConfig) -> dict[bytes, Peer]:
    """Everyone who may call this cloud, by public key."""
    listed: list[Peer] = []
    if isinstance(config, Cloud1Config):
        listed.append(Peer("cloud2", "cloud2", config.cloud2.public_key))
    elif isinstance(config, Cloud2Config):
        listed.append(Peer("cloud1", "cloud1", config.cloud1.public_key))
    listed += [Peer("operator", name, key) for name, key in config.operators.items()]
    former = config.former_keys
    listed += [
        Peer("owner", name, key, former.get(name, ())) for name, key in config.owners.items()
    ]
    listed += [Peer("auditor", name, key) for name, key in config.auditors.items()]
    by_key: dict[bytes, Peer] = {}
    for peer in listed:
        other = by_key.setdefault(peer.key.encode(), peer)
        if other != peer:
            raise ConfigError(f"{peer.name!r} and {other.name!r} have the same public key.")
    _check_former(config, by_key)
    return by_key


def _check_former(config: CloudConfig, by_key: Mapping[bytes, Peer]) -> None:
    """Refuse former keys of nobody, and those that somebody has now or had before."""
    seen: dict[str, str] = {}
    for name, keys in config.former_keys.items():
        if name not in config.owners:
            raise ConfigError(f"former_keys names {name!r}, who has no key in [owners].")
        for key in keys:
            now = by_key.get(key.encode())
            other = now.name if now is not None else seen.get(key)
            if other is not None:
                raise ConfigError(
                    f"former_keys gives {name!r} a key that {other!r} has. Put the new key of "
                    f"{name!r} into [owners] and the old one into former_keys."
                )
            seen[key] = name
