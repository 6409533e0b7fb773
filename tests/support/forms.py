"""What a browser would send of a form that nobody touched."""

from html.parser import HTMLParser


class _Forms(HTMLParser):
    def __init__(self):
        super().__init__()
        self.forms, self._fields, self._select, self._area, self._option = {}, {}, None, None, None

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form":
            self._fields = self.forms.setdefault(given.get("action", given.get("id", "")), {})
        elif tag == "input" and "name" in given:
            ticked = given.get("type") not in ("checkbox", "radio") or "checked" in given
            self._fields.update({given["name"]: given.get("value") or ""} if ticked else {})
        elif tag == "select" and "name" in given:
            self._select = given["name"]
        elif tag == "option" and self._select is not None:
            self._option = given.get("value")
            if self._option is not None and (self._select not in self._fields or "selected" in given):
                self._fields[self._select] = self._option
        elif tag == "textarea" and "name" in given:
            self._area = given["name"]
            self._fields[self._area] = ""

    def handle_data(self, data):
        if self._area is not None:
            self._fields[self._area] += data

    def handle_endtag(self, tag):
        self._select = None if tag == "select" else self._select
        self._area = None if tag == "textarea" else self._area


def untouched(text, action):
    """The fields of the form with this action, as they stand on the page; every option must state its value."""
    parser = _Forms()
    parser.feed(text)
    return parser.forms[action]
