"""The run loop: which CTAs live, which threads run next, when events happen, and when a run ends."""
