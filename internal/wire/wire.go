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

// Limits of what a message may announce, the same as a Redis server's own. Beyond them it is not worth reading.
const (
	mostWords = 1 << 20
	mostBytes = 512 << 20
)

// ReadRequest reads one client request, an array of bulk strings, and returns its words and its bytes. A
// request may be empty: then it has no words, and a server ignores it.
// It returns io.EOF if the stream ends before the first byte of a request, and io.ErrUnexpectedEOF if it ends later.
func ReadRequest(r *bufio.Reader) (words []string, raw []byte, err error) {
	var seen bytes.Buffer
	line, err := readLine(r, &seen)
	if err != nil {
		return nil, nil, err
	}
	n, err := length(line, '*', mostWords)
	if err != nil {
		return nil, nil, err
	}
	for range n {
		word, err := readWord(r, &seen)
		if err != nil {
			return nil, nil, midMessage(err)
		}
		words = append(words, word)
	}
	return words, seen.Bytes(), nil
}

func readWord(r *bufio.Reader, seen *bytes.Buffer) (string, error) {
	line, err := readLine(r, seen)
	if err != nil {
		return "", err
	}
	size, err := length(line, '$', mostBytes)
	if err != nil {
		return "", err
	}
	if size < 0 {
		return "", fmt.Errorf("wire: a request can't hold %q", line)
	}
	begin := seen.Len()
	if err := readBody(r, size, seen); err != nil {
		return "", err
	}
	return string(seen.Bytes()[begin : begin+size]), nil
}

// ReadReply reads one server reply of any RESP2 or RESP3 type and returns its bytes. It returns io.EOF if the stream
// ends before the first byte of a reply, and io.ErrUnexpectedEOF if it ends later.
func ReadReply(r *bufio.Reader) ([]byte, error) {
	var seen bytes.Buffer
	if err := readReply(r, &seen); err != nil {
		if seen.Len() > 0 {
			err = midMessage(err)
		}
		return nil, err
	}
	return seen.Bytes(), nil
}

func readReply(r *bufio.Reader, seen *bytes.Buffer) error {
	line, err := readLine(r, seen)
	if err != nil {
		return err
	}
	switch kind := line[0]; kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return nil
	case '$', '=', '!':
		size, err := length(line, kind, mostBytes)
		if err != nil || size < 0 { // $-1 is the nil reply
			return err
		}
		return readBody(r, size, seen)
	case '*', '~', '>', '%', '|':
		n, err := length(line, kind, mostWords)
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
	return fmt.Errorf("wire: unknown reply type %q", line[0])
}

// readLine reads a line that ends with CR LF, and has something before it.
func readLine(r *bufio.Reader, seen *bytes.Buffer) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		if line != "" {
			err = midMessage(err)
		}
		return "", err
	}
	seen.WriteString(line)
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return "", fmt.Errorf("wire: got the line %q", line)
	}
	return line, nil
}

// length reads the number in a line such as "$12".
func length(line string, kind byte, most int) (int, error) {
	if line[0] != kind {
		return 0, fmt.Errorf("wire: got %q, want a line that starts with %q", line, kind)
	}
	n, err := strconv.Atoi(strings.TrimSuffix(line[1:], "\r\n"))
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("wire: %q is no length", line)
	}
	return n, nil
}

// readBody reads so many bytes and the CR LF behind them.
func readBody(r *bufio.Reader, size int, seen *bytes.Buffer) error {
	if _, err := io.CopyN(seen, r, int64(size)+2); err != nil {
		return err
	}
	if !bytes.HasSuffix(seen.Bytes(), []byte("\r\n")) {
		return fmt.Errorf("wire: %d bytes don't end where they should", size)
	}
	return nil
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
	if len(words) == 0 {
		return ""
	}
	if strings.EqualFold(words[0], "EVAL") && len(words) > 1 {
		first, _, _ := strings.Cut(strings.TrimSpace(words[1]), "\n")
		if name, ok := strings.CutPrefix(first, "-- "); ok {
			name, _, _ = strings.Cut(name, ":")
			if name = strings.TrimSpace(name); name != "" {
				return name
			}
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
