"""What trainers do: step 64 environments together."""

from benchmarks.bench import Bench


def vector(bench: Bench) -> None:
    """Step a vector of 64 as fast as it goes, on every core, beside as many pipes to as many processes."""
    steps, few_steps = str(bench.effort.vector_steps), str(bench.effort.vector_steps // 10)
    with bench.unpinned():
        bench.samples.add("vector", "gymnasium", bench.drive("gymnasium", "drive_gymnasium", "--steps", steps))
        # It has no vector: the fastest that it offers is a client for each session, awaited together.
        url = bench.server("public").url
        public = bench.drive("public", "drive_client", "together", "--url", url, "--steps", few_steps)
        bench.samples.add("vector", "public", public)
        with bench.fresh_server("ours", anywhere=True) as server:
            ours = bench.drive("ours", "drive_vector", "rate", "--url", server.url, "--steps", steps)
            bench.samples.add("vector", "ours", ours)


def pictures(bench: Bench) -> None:
    """Step 8 environments with pictures by Gymnasium's interface, beside as many pipes to as many processes."""
    steps = str(bench.effort.picture_steps)
    with bench.unpinned():
        theirs = bench.drive("gymnasium", "drive_pictures", "--steps", steps)
        for row, options in (("pictures", ["--inline"]), ("pictures_threaded", [])):
            if row not in bench.rows:
                continue
            bench.samples.add(row, "gymnasium", theirs)
            with bench.fresh_server("ours_pictures", *options, anywhere=True) as server:
                ours = bench.drive("ours", "drive_pictures", "--url", server.url, "--steps", steps)
                bench.samples.add(row, "ours", ours)


def turn(bench: Bench) -> None:
    """Step 64 sessions once, each of which takes 50 ms."""
    turns = str(bench.effort.turns)
    # The trainer of the public package's users, TRL, steps one rollout after another.
    for name, program in (("public", "drive_client"), ("ours", "drive_vector")):
        url = bench.server(f"{name}_sleeping").url
        bench.samples.add("rollout_turn", name, bench.drive(name, program, "turn", "--url", url, "--steps", turns))
