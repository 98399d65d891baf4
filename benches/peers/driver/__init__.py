"""The parts of benches/peers/run, with the standard library only."""
