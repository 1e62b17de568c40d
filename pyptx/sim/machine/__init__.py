"""The run loop: decides which CTAs are resident, which threads run, when events happen, when a run ends."""
