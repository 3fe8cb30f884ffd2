package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// actionable are the roles of what can be clicked or typed into. Their nodes have a number.
var actionable = map[string]bool{"link": true, "button": true, "textbox": true, "searchbox": true, "combobox": true,
	"checkbox": true, "radio": true, "switch": true, "slider": true, "spinbutton": true, "menuitem": true, "tab": true,
	"menuitemcheckbox": true, "menuitemradio": true, "option": true, "treeitem": true, "listbox": true, "Date": true,
	"DateTime": true, "InputTime": true, "ColorWell": true, "DisclosureTriangle": true, "image": true, "Iframe": true}

// named are the roles whose name is the text inside, which is then not repeated.
var named = map[string]bool{"link": true, "button": true, "heading": true, "option": true, "tab": true,
	"menuitem": true, "treeitem": true, "cell": true, "gridcell": true, "columnheader": true, "rowheader": true,
	"checkbox": true, "radio": true, "switch": true, "LabelText": true, "paragraph": true, "listitem": true}

// states are the properties that are shown, in this order.
var states = []accessibility.PropertyName{accessibility.PropertyNameLevel, accessibility.PropertyNameChecked,
	accessibility.PropertyNamePressed, accessibility.PropertyNameSelected, accessibility.PropertyNameExpanded,
	accessibility.PropertyNameDisabled, accessibility.PropertyNameReadonly, accessibility.PropertyNameRequired,
	accessibility.PropertyNameInvalid, accessibility.PropertyNameFocused, accessibility.PropertyNameModal}

// A tree is the accessibility tree of a page in the making.
type tree struct {
	nodes  map[accessibility.NodeID]*accessibility.Node
	frames map[cdp.BackendNodeID][]*accessibility.Node // by the element that contains them
	lines  []string
}

// readTree returns the accessibility tree of a tab, one node in each line.
func (p *process) readTree(ctx context.Context, t *tab) (string, error) {
	w := &tree{nodes: map[accessibility.NodeID]*accessibility.Node{},
		frames: map[cdp.BackendNodeID][]*accessibility.Node{}}
	main, err := call(ctx, p.wire, t.id, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		return "", err
	}
	frames, err := call(ctx, p.wire, t.id, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		return "", err
	}
	var inner func(*page.FrameTree)
	inner = func(f *page.FrameTree) {
		if f == nil {
			return
		}
		for _, c := range f.ChildFrames {
			owner, err := call(ctx, p.wire, t.id, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: c.Frame.ID})
			if err != nil {
				continue // it has just been removed
			}
			found, err := call(ctx, p.wire, t.id, accessibility.GetFullAXTree,
				accessibility.GetFullAXTreeParams{FrameID: c.Frame.ID})
			if err == nil { // a frame of another site is a process of its own, which is not read
				w.frames[owner.BackendNodeID] = found.Nodes
			}
			inner(c)
		}
	}
	inner(frames.FrameTree)
	w.add(main.Nodes, 0)
	return strings.Join(w.lines, "\n"), nil
}

// add adds the nodes of a frame.
func (w *tree) add(nodes []*accessibility.Node, depth int) {
	for _, n := range nodes {
		w.nodes[n.NodeID] = n
	}
	for _, n := range nodes {
		if n.ParentID == "" {
			w.node(n, depth, "")
		}
	}
}

// node adds a node and those below it. above is the name of the node that contains it, if that was shown.
func (w *tree) node(n *accessibility.Node, depth int, above string) {
	role, name := text(n.Role), oneLine(text(n.Name))
	next, within := depth, above
	switch {
	case n.Ignored, role == "InlineTextBox", role == "LineBreak", role == "ListMarker":
	case role == "StaticText":
		if name != "" && !strings.Contains(above, name) {
			w.text(depth, name)
		}
		return
	case role == "MenuListPopup":
	case (role == "generic" || role == "none" || role == "RootWebArea" || role == "LabelText") && (name == "" ||
		role == "RootWebArea" || role == "LabelText"), role == "":
	default:
		value := oneLine(text(n.Value))
		line := role
		if name != "" {
			line += fmt.Sprintf(" %q", name)
		}
		if actionable[role] && n.BackendDOMNodeID != 0 {
			line += fmt.Sprintf(" [%d]", n.BackendDOMNodeID)
		}
		for _, want := range states {
			for _, prop := range n.Properties {
				if v := text(prop.Value); prop.Name == want && v != "" && v != "false" && !(v == "0" || want == "focused" &&
					role == "RootWebArea") {
					line += " " + string(want)
					if v != "true" {
						line += "=" + v
					}
				}
			}
		}
		if value != "" && value != name {
			line += fmt.Sprintf(" value=%q", value)
		}
		if d := oneLine(text(n.Description)); d != "" && d != name {
			line += fmt.Sprintf(" (%s)", d)
		}
		if role == "link" {
			i := slices.IndexFunc(n.Properties, func(p *accessibility.Property) bool {
				return p.Name == accessibility.PropertyNameURL
			})
			if i >= 0 {
				line += " -> " + oneLine(text(n.Properties[i].Value))
			}
		}
		w.line(depth, line)
		if role == "Date" || role == "DateTime" || role == "InputTime" {
			return // its parts are the browser's own
		}
		next = depth + 1
		within = ""
		if named[role] {
			within = name
		}
		if role == "textbox" || role == "searchbox" || role == "spinbutton" {
			within = value // the text inside is the value
		}
	}
	for _, id := range n.ChildIDs {
		if c := w.nodes[id]; c != nil {
			w.node(c, next, within)
		}
	}
	if inner := w.frames[n.BackendDOMNodeID]; inner != nil && n.BackendDOMNodeID != 0 {
		delete(w.frames, n.BackendDOMNodeID)
		w.add(inner, next)
	}
}

func (w *tree) line(depth int, s string) {
	w.lines = append(w.lines, strings.Repeat("  ", min(depth, 30))+"- "+s)
}

// text adds a text, to the line before if that is text, too.
func (w *tree) text(depth int, s string) {
	start := strings.Repeat("  ", min(depth, 30)) + "- text: "
	if n := len(w.lines) - 1; n >= 0 && strings.HasPrefix(w.lines[n], start) && len(w.lines[n]) < maxName {
		w.lines[n] += " " + s
		return
	}
	w.line(depth, "text: "+s)
}

// text returns a value of the tree.
func text(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var s string
	if json.Unmarshal(v.Value, &s) == nil {
		return s
	}
	return string(v.Value)
}

// maxName is the length of a text in the tree, in bytes.
const maxName = 1000

// short cuts a text of a page before anything is done with it or it is kept: a page can make it as long as it likes.
func short(s string) string {
	if len(s) > 8*maxName {
		s = strings.Clone(s[:8*maxName])
	}
	return s
}

// oneLine returns text of a page in one line, without hidden characters.
func oneLine(s string) string {
	s, _ = plain.Visible(short(s))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "…"
	}
	return s
}
