"""What `docs/explanation/planted.md` prints of planted faults: tables and sentences of figures."""

from __future__ import annotations

from typing import Any, Final

from bars._pages import DOCS, fill_page
from bars._pages import format_share as share

PAGE: Final = DOCS / "explanation" / "planted.md"


def refreshed_page(proofs: dict[str, Any]) -> str:
    """Return the page with the figures of a file of proofs."""
    return fill_page(PAGE.read_text(encoding="utf-8"), page_blocks(proofs))


def page_blocks(proofs: dict[str, Any]) -> dict[str, str]:
    """Return what stands between the marks of the page."""
    return {
        "kinds": _kinds(proofs),
        "means": _means(proofs),
        "seen": _seen(proofs),
        "false": _false(proofs),
    }


def _kinds(proofs: dict[str, Any]) -> str:
    lines = [
        "| planted | axis | n | proved | first suspect | near misses | called a fault |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in sorted(proofs["kinds"].items(), key=lambda item: (item[1]["item"], item[0])):
        cells = [
            *(name.replace("_", " "), one["axis"].replace("_", " "), str(one["planted"])),
            share(one["proved"] / one["planted"]),
            share(one["first"] / one["planted"]),
            *(str(one["near"]), str(one["near_faults"])),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _means(proofs: dict[str, Any]) -> str:
    kinds = proofs["kinds"].values()
    proved = sum(one["proved"] / one["planted"] for one in kinds) / len(kinds)
    first = sum(one["first"] / one["planted"] for one in kinds) / len(kinds)
    of_proved = sum(one["first_proved"] for one in kinds) / sum(one["proved"] for one in kinds)
    near, wrong = (sum(one[name] for one in kinds) for name in ("near", "near_faults"))
    return (
        f"Each kind weighing the same: proved {share(proved)}, first suspect {share(first)}.\n"
        f"Where the fault is proved, the first suspect is on it in {share(of_proved)}. Of\n"
        f"{near:,} near misses {wrong} are called a fault."
    )


def _seen(proofs: dict[str, Any]) -> str:
    seen = proofs["seen_template"]
    return (
        "On the wording that the checks were written with they prove "
        f"{share(seen['proved'])}, first suspect\n{share(seen['first'])}: much of what is proved "
        "hangs on wording. Expect the lower figures, or less."
    )


def _false(proofs: dict[str, Any]) -> str:
    axes = proofs["axes"].values()
    looked = max(one["passing"] for one in axes)
    said = f"{len(proofs['false'])} faults in {looked} runs:"
    lines = ["| run | step | axis | what is said | a reader |", "|---|---|---|---|---|"]
    for one in proofs["false"]:
        reason = one["reason"].replace("|", "\\|")
        lines.append(
            f"| {one['run']} | {one['step']} | {one['axis'].replace('_', ' ')} | {reason} | "
            f"{one['reader']} |"
        )
    return "\n".join([said, "", *lines] if proofs["false"] else [said.replace(":", ".")])
