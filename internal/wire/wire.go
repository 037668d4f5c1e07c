// Package wire reads the Redis protocol (RESP) just well enough to see which command passes by.
//
// The virtual network of internal/sim and the TCP proxy of internal/redistest both sit between a
// client and a server. Both decide by the command's name what to do with it ("lose the reply of the
// next SET"), so both speak in terms of this package: a request is its words, a reply is its bytes.
package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ReadRequest reads one client request, an array of bulk strings, and returns its words and its bytes.
// It returns io.EOF if the stream ends before the first byte of a request.
func ReadRequest(r *bufio.Reader) (words []string, raw []byte, err error) {
	var seen bytes.Buffer
	n, err := readLength(r, '*', &seen)
	if err != nil {
		return nil, nil, err
	}
	for range n {
		size, err := readLength(r, '$', &seen)
		if err != nil {
			return nil, nil, midMessage(err)
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, nil, midMessage(err)
		}
		seen.Write(word)
		words = append(words, string(word[:size]))
	}
	return words, seen.Bytes(), nil
}

// ReadReply reads one server reply of any RESP2 or RESP3 type and returns its bytes.
func ReadReply(r *bufio.Reader) ([]byte, error) {
	var seen bytes.Buffer
	if err := readReply(r, &seen); err != nil {
		return nil, err
	}
	return seen.Bytes(), nil
}

func readReply(r *bufio.Reader, seen *bytes.Buffer) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	seen.WriteString(line)
	if len(line) < 3 {
		return fmt.Errorf("wire: reply line %q", line)
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return nil
	case '$', '=', '!':
		size, err := strconv.Atoi(text)
		if err != nil || size < 0 { // $-1 is the nil reply
			return err
		}
		_, err = io.CopyN(seen, r, int64(size)+2)
		return err
	case '*', '~', '>', '%', '|':
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if kind == '%' || kind == '|' { // a map has a key and a value for each entry
			n *= 2
		}
		if kind == '|' { // an attribute precedes the reply it belongs to
			n++
		}
		for range n {
			if err := readReply(r, seen); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("wire: unknown reply type %q", kind)
}

func readLength(r *bufio.Reader, kind byte, seen *bytes.Buffer) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	seen.WriteString(line)
	if line[0] != kind {
		return 0, fmt.Errorf("wire: got %q, want a line that starts with %q", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func midMessage(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Name is what a request is called: the command in capitals, or for a script the word that its first
// line gives after "--". A script that starts with "-- release" is called "release".
func Name(words []string) string {
	if strings.EqualFold(words[0], "EVAL") && len(words) > 1 {
		first, _, _ := strings.Cut(strings.TrimSpace(words[1]), "\n")
		if name, ok := strings.CutPrefix(first, "-- "); ok {
			name, _, _ = strings.Cut(name, ":")
			return name
		}
	}
	return strings.ToUpper(words[0])
}

// Match chooses requests by their words.
type Match func(words []string) bool

// Named matches requests by name: Named("GET", "release").
func Named(names ...string) Match {
	return func(words []string) bool { return slices.Contains(names, Name(words)) }
}

// The requests that matter to a story, whatever the chapter calls them.
var (
	Acquires = Named("SETNX", "SET", "acquire")
	Releases = Named("DEL", "DELEX", "release")
	Extends  = Named("EXPIRE", "PEXPIRE", "extend")
)

// Any matches every request that is not connection set-up.
func Any(words []string) bool { return !Setup(words) }

// Setup matches what go-redis sends when a connection is new. It says nothing about a lock, so faults
// and timelines leave it alone.
func Setup(words []string) bool {
	return Named("HELLO", "AUTH", "CLIENT", "SELECT", "PING", "READONLY", "COMMAND", "INFO")(words)
}
