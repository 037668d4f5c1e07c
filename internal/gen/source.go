package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// source is a Go file that is read to be quoted or changed.
type source struct {
	text string
	fset *token.FileSet
	file *ast.File
}

func parseSource(text string) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "lock.go", text, parser.ParseComments|parser.SkipObjectResolution)
	return source{text, fset, file}, err
}

// at is where a position is in the text.
func (s source) at(p token.Pos) int { return s.fset.Position(p).Offset }

// span is where a node is in the text.
func (s source) span(n ast.Node) (start, end int) { return s.at(n.Pos()), s.at(n.End()) }

// declared finds what declares a name, without its comment: "newToken", "releaseScript", "Lock", and for methods
// "Lock.release", or just "release" if only one type has it.
func (s source) declared(name string) (ast.Node, error) {
	var exact, methods []ast.Node
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			switch {
			case d.Recv == nil && d.Name.Name == name, receiver(d)+"."+d.Name.Name == name:
				exact = append(exact, d)
			case d.Name.Name == name:
				methods = append(methods, d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch {
				case !declares(spec, name):
				case d.Lparen.IsValid():
					exact = append(exact, spec)
				default:
					exact = append(exact, d)
				}
			}
		}
	}
	if len(exact) == 0 {
		exact = methods
	}
	switch len(exact) {
	case 0:
		return nil, fmt.Errorf("nothing is called %s", name)
	case 1:
		return exact[0], nil
	}
	return nil, fmt.Errorf("%d methods are called %s: say of which type, as in Lock.%s", len(exact), name, name)
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func declares(spec ast.Spec, name string) bool {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Name.Name == name
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.Name == name {
				return true
			}
		}
	}
	return false
}

// field is one line of a list next to a chapter: a key and its value.
type field struct{ key, value string }

// paragraphs reads such a list. Each entry is a paragraph of lines such as "fails TestExplore", lines that begin with
// spaces go on with the line before, and lines that begin with # are comments.
func paragraphs(text string) [][]field {
	var all [][]field
	var now []field
	for _, line := range append(splitLines(text), "") {
		key, value, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			if len(now) > 0 {
				all = append(all, now)
			}
			now = nil
		case key == "" && len(now) > 0:
			now[len(now)-1].value += " " + strings.TrimSpace(line)
		default:
			now = append(now, field{key, strings.TrimSpace(value)})
		}
	}
	return all
}
