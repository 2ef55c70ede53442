"""The desk: a page on the party's own machine, for people without a terminal.

It listens on loopback alone and is opened once, by a ticket from a private file (`guard`,
`serving`). Records that an owner chooses go into the owner's private folder and nowhere else
(`incoming`). Templates escape every value. The browser gets one style sheet and one script, and
asks no other server for anything.
"""
