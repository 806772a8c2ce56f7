"""How a model writes calls of tools: as its chat template shows them."""

import json
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ToolStyle:
    """A call is {"name": "…", "arguments": {…}}; this is what stands around calls."""

    opening: str  # before the first call
    between: str | None  # two calls; None: there is only one
    closing: str  # after the last
    trigger: str  # what the opening begins with: free words may not hold it, answers in a format may
    arguments: str = "arguments"  # the key of that name

    @property
    def marks(self) -> str:
        return f"{self.opening}{self.between or ''}{self.closing}"

    def head(self, name: str) -> str:
        """What a call begins with, up to its arguments."""
        return f'{{"name": {json.dumps(name)}, "{self.arguments}": '


TAGS = ToolStyle("<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>", "<tool_call>")
LIST = ToolStyle("[TOOL_CALLS][", ", ", "]", "[TOOL_CALLS]")
BARE = ToolStyle("", None, "", "{", "parameters")


def takes_tools(template: str) -> bool:
    """Whether a chat template writes tools itself."""
    return re.search(r"\btools\b", template) is not None


def style_of(template: str) -> ToolStyle:
    if LIST.trigger in template:
        return LIST
    is_bare = takes_tools(template) and TAGS.trigger not in template and '"parameters"' in template
    return BARE if is_bare else TAGS
