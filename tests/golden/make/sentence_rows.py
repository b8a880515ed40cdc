# SPDX-License-Identifier: Apache-2.0
"""The sentences that models of sentences are trained and asked on."""

SAID = [
    ("A licence is granted.", "You get a licence.", "No licence is given.", 0.9, 0),
    ("Copy the program.", "The program may be copied and given away.", "Do not copy it.", 0.8, 0),
    ("The authors give no warranty.", "There is no warranty.", "The authors pay for all damage.", 0.85, 1),
    ("Keep the notices.", "Notices are to be kept intact!", "Remove every notice from the source code.", 0.7, 1),
    ("Modify the source.", "You may change the code.", "Changes are not allowed.", 0.75, 2),
    ("short", "a small text", "a text that is much longer than that one is", 0.5, 2),
    ("The work is distributed.", "Distribution of the work", "The work stays at home.", 0.6, 0),
    ("Patents are included.", "It covers patents too.", "Patents are left out of it.", 0.95, 1),
    ("Name the licensor.", "Say who the licensor is.", "Names do not matter.", 0.3, 2),
    ("State the changes.", "Say what was changed.", "Nobody asks for the changes.", 0.2, 0),
    ("Terms apply.", "There are terms and conditions.", "There are no terms at all.", 0.1, 1),
    ("A licence is granted.", "Permission is given.", "Everything is forbidden.", 0.65, 2),
]


def rows_of(*names):
    """Rows with these columns, in this order."""
    keys = ("anchor", "positive", "negative", "score", "label")
    made = []
    for i, said in enumerate(SAID):
        row = dict(zip(keys, said))
        row["negative_2"] = SAID[(i + 5) % 12][2]
        row["binary"] = int(said[3] > 0.6)
        made.append({name.split(":")[-1]: row[name.split(":")[0]] for name in names})
    return made
