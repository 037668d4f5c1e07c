package sim

import (
	"fmt"
	"slices"
	"strings"
)

// Mermaid draws the history as a sequence diagram for Markdown. The guilty step stands in a tinted box that is
// readable on a light page and on a dark one.
func Mermaid(h *History, f Finding) string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for _, name := range h.Clients {
		fmt.Fprintf(&b, "    participant %s\n", name)
	}
	for _, name := range h.Nodes {
		fmt.Fprintf(&b, "    participant %s\n", name)
	}
	for i, e := range h.Events {
		lines := mermaidLines(h, e)
		if i == f.Event && len(lines) > 0 {
			who := e.Client
			lines = append(lines, fmt.Sprintf("Note over %s: %s", who, mermaidText(string(f.Verdict))))
			lines = slices.Concat([]string{"rect rgba(220, 60, 60, 0.25)"}, lines, []string{"end"})
		}
		for _, line := range lines {
			b.WriteString("    " + line + "\n")
		}
	}
	return b.String()
}

func mermaidLines(h *History, e Event) []string {
	at := clock(e.At) + " "
	switch {
	case e.Kind == Command:
		arrow := "-->>"
		if strings.Contains(e.Reply, "lost") {
			arrow = "--x"
		}
		return []string{
			fmt.Sprintf("%s->>%s: %s", e.Client, e.Node, mermaidText(at+e.Text)),
			fmt.Sprintf("%s%s%s: %s", e.Node, arrow, e.Client, mermaidText(e.Reply)),
		}
	case e.Kind == Expire:
		return []string{fmt.Sprintf("Note over %s: %s", e.Node, mermaidText(at+e.Before+"'s "+e.Text))}
	case e.Kind == Enter:
		return []string{fmt.Sprintf("activate %s", e.Client), fmt.Sprintf("Note over %s: %s", e.Client, at+"enters")}
	case e.Kind == Leave:
		return []string{fmt.Sprintf("deactivate %s", e.Client)}
	case e.Kind == Fault && e.Client != "":
		return []string{fmt.Sprintf("Note over %s: %s", e.Client, mermaidText(at+e.Text))}
	case e.Kind == Fault:
		return []string{fmt.Sprintf("Note over %s: %s", e.Node, mermaidText(at+e.Text))}
	case e.Kind == Return && e.Outcome != OK:
		return []string{fmt.Sprintf("Note over %s: %s", e.Client, mermaidText(at+e.Text))}
	}
	return nil
}

// mermaidText keeps characters out that mean something to the diagram's syntax.
func mermaidText(s string) string { return strings.NewReplacer(";", ",", "#", "no. ").Replace(s) }
