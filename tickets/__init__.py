"""What was bought: tickets, their page and file, and the emails that carry them."""
