"""FlashScope's application: it steps through the kernel's block loop and shows what ran."""
