package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A test says in the first words of its comment which kinds of fault it is about: "Q1: the lease counts from …". The promises that
// several chapters share say it in their names: "A1_reply_lost_is_not_taken". docs/faults.md lists the kinds.
var (
	faultsOfTest  = regexp.MustCompile(`^[A-Z]\d+(, [A-Z]\d+)*: `)
	faultOfPledge = regexp.MustCompile(`^((?:[A-Z]\d+_)+)([\w']+)$`)
	faultOnPage   = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|`)
)

// shared are the tests of several chapters, and where their promises stand.
var shared = []struct{ test, folder string }{{"TestContract", "internal/contract/"}, {"TestRenewal", "internal/renewal/"}}

// proofs is what the tests say of one kind of fault.
type proofs struct {
	pledges map[string][]string // of a shared test
	tests   []string            // names, in the order of the folders
	places  map[string][]string // test → links
}

// faults lists the tests of each kind of fault whose name starts with a letter.
func (m *maker) faults(p page, args []string) (string, error) {
	known, err := m.book.proofs(strings.Repeat("../", strings.Count(p.name, "/")))
	if err != nil {
		return "", err
	}
	var listed []string
	for _, row := range faultOnPage.FindAllStringSubmatch(strings.Join(p.lines, "\n"), -1) {
		if strings.HasPrefix(row[1], args[0]) {
			listed = append(listed, row[1])
		}
	}
	for fault := range known {
		if strings.HasPrefix(fault, args[0]) && !slices.Contains(listed, fault) {
			return "", fmt.Errorf("there are tests of %s, and the page has no row for it", fault)
		}
	}
	var out strings.Builder
	for _, fault := range listed {
		proof, tested := known[fault]
		if !tested {
			continue // the row says why
		}
		fmt.Fprintf(&out, "- **%s**:", fault)
		in := "in"
		for _, s := range shared {
			if pledges := proof.pledges[s.test]; len(pledges) > 0 {
				fmt.Fprintf(&out, " %s `%s`: %s.", in, s.test, strings.Join(pledges, ", "))
				in = "In"
			}
		}
		for _, test := range proof.tests {
			fmt.Fprintf(&out, " `%s` %s.", test, strings.Join(proof.places[test], " "))
		}
		out.WriteString("\n")
	}
	return out.String(), nil
}

// proofs reads all tests. Links start with up.
func (b *book) proofs(up string) (map[string]proofs, error) {
	all := map[string]proofs{}
	err := eachFile(b.root, ".go", func(name string) error {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(b.root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				about := faultsOfTest.FindString(n.Doc.Text())
				if !strings.HasPrefix(n.Name.Name, "Test") || about == "" {
					break
				}
				link := fmt.Sprintf("[%s](%s%s#L%d)", shortFolder(name), up, name, fset.Position(n.Pos()).Line)
				for fault := range strings.SplitSeq(strings.TrimSuffix(about, ": "), ", ") {
					p := all[fault]
					p.add(n.Name.Name, link)
					all[fault] = p
				}
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				parts := faultOfPledge.FindStringSubmatch(text)
				if err != nil || parts == nil || strings.HasSuffix(name, "_test.go") {
					break
				}
				for _, s := range shared {
					if strings.HasPrefix(name, s.folder) {
						for fault := range strings.SplitSeq(strings.TrimSuffix(parts[1], "_"), "_") {
							p := all[fault]
							p.pledge(s.test, strings.ReplaceAll(parts[2], "_", " "))
							all[fault] = p
						}
					}
				}
			}
			return true
		})
		return nil
	})
	return all, err
}

func (p *proofs) pledge(test, words string) {
	if p.pledges == nil {
		p.pledges = map[string][]string{}
	}
	if !slices.Contains(p.pledges[test], words) {
		p.pledges[test] = append(p.pledges[test], words)
	}
}

func (p *proofs) add(test, link string) {
	if p.places == nil {
		p.places = map[string][]string{}
	}
	if !slices.Contains(p.tests, test) {
		p.tests = append(p.tests, test)
	}
	p.places[test] = append(p.places[test], link)
}

// shortFolder is the chapter's number, or the folder.
func shortFolder(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	if len(first) > 3 && first[2] == '-' && !strings.Contains(rest, "/") {
		return first[:2]
	}
	return filepath.ToSlash(filepath.Dir(name))
}
