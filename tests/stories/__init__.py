"""Stories: whole ways through the product, with its real processes."""
