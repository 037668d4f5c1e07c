package main

import (
	"fmt"
	"go/ast"
	"path"
	"path/filepath"
	"strings"
)

// code is some declarations of a file that compiles, with their comments: "file.go#one,Two.Method".
func (m *maker) code(_ page, args []string) (string, error) {
	file, names, found := strings.Cut(args[0], "#")
	if !found || path.Ext(file) != ".go" {
		return "", fmt.Errorf("%q names no declaration: it should read file.go#name,Type.Method", args[0])
	}
	text, err := readText(filepath.Join(m.book.root, filepath.FromSlash(file)))
	if err != nil {
		return "", err
	}
	src, err := parseSource(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	var texts []string
	for _, name := range strings.Split(names, ",") {
		decl, err := src.declared(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		start, end := src.span(decl)
		if doc := comment(decl); doc != nil {
			start = src.at(doc.Pos())
		}
		texts = append(texts, src.text[start:end])
	}
	return fence("go", strings.Join(texts, "\n\n")), nil
}

// comment is what stands above a declaration, if anything does.
func comment(decl ast.Node) *ast.CommentGroup {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}
