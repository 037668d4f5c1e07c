package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// encode writes a request as a client does.
func encode(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// readers cut a stream in different places: nowhere, at every byte, and at half of what is asked for.
var readers = map[string]func(io.Reader) io.Reader{
	"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
	"error with data": iotest.DataErrReader,
}

// A request is read whole, with its bytes as they came, wherever the stream is cut, and leaves the next one alone.
func TestReadRequest(t *testing.T) {
	requests := [][]string{
		{"PING"}, {"SET", "k", "", "PX", "30000"}, {"EVAL", "-- x\r\nreturn 1", "0"}, {"SET", "binary", "\x00\r\n$3\r\n\xff"},
		{"GET", strings.Repeat("long", 5000)}, nil,
	}
	for name, cut := range readers {
		t.Run(name, func(t *testing.T) {
			var stream strings.Builder
			for _, words := range requests {
				stream.WriteString(encode(words...))
			}
			r := bufio.NewReader(cut(strings.NewReader(stream.String())))
			for _, words := range requests {
				got, raw, err := ReadRequest(r)
				require.NoError(t, err)
				require.Equal(t, words, got)
				require.Equal(t, encode(words...), string(raw))
			}
			_, _, err := ReadRequest(r)
			require.Equal(t, io.EOF, err)
		})
	}
}

// A stream that ends in the middle of a request is told from one that ends before it.
func TestReadRequestEndsEarly(t *testing.T) {
	whole := encode("SET", "k", "value")
	for n := range len(whole) {
		_, _, err := ReadRequest(bufio.NewReader(strings.NewReader(whole[:n])))
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		require.Equal(t, want, err, "%q", whole[:n])
	}
}

// What is no request is an error at once, whatever length it announces.
func TestReadRequestRefuses(t *testing.T) {
	for _, bad := range []string{
		"PING\r\n", "\r\n", "*\r\n", "*x\r\n", "*-2\r\n", "*1\n", "*1\r\n+OK\r\n", "*1\r\n$-1\r\n", "*1\r\n$-3\r\nabc\r\n",
		"*1\r\n$3\r\nabcde", "*99999999999999999999\r\n", "*1048577\r\n", "*1\r\n$536870913\r\n", "$3\r\nabc\r\n",
	} {
		_, _, err := ReadRequest(bufio.NewReader(strings.NewReader(bad)))
		require.ErrorContains(t, err, "wire: ", "%q", bad)
	}
}

// Every kind of reply of RESP2 and RESP3 is read whole, and leaves the next one alone.
func TestReadReply(t *testing.T) {
	replies := []string{
		"+OK\r\n", "+\r\n", "-ERR no\r\n", ":-7\r\n", "$5\r\nhello\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"*3\r\n:1\r\n$-1\r\n*2\r\n+a\r\n$1\r\nb\r\n", "_\r\n", ",3.14\r\n", ",inf\r\n", "#t\r\n", "(3492890328409238509324850943850943825024385\r\n",
		"=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n", "~2\r\n:1\r\n:2\r\n", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "%0\r\n", ">3\r\n+message\r\n+ch\r\n$1\r\nx\r\n",
		"|1\r\n+ttl\r\n:3\r\n+OK\r\n", "*1\r\n|1\r\n+a\r\n:1\r\n%1\r\n+b\r\n#f\r\n", "$5000\r\n" + strings.Repeat("x", 5000) + "\r\n",
	}
	for name, cut := range readers {
		t.Run(name, func(t *testing.T) {
			r := bufio.NewReader(cut(strings.NewReader(strings.Join(replies, ""))))
			for _, want := range replies {
				got, err := ReadReply(r)
				require.NoError(t, err)
				require.Equal(t, want, string(got))
			}
			_, err := ReadReply(r)
			require.Equal(t, io.EOF, err)
		})
	}
}

// A stream that ends in the middle of a reply is told from one that ends before it.
func TestReadReplyEndsEarly(t *testing.T) {
	for _, whole := range []string{"+OK\r\n", "$5\r\nhello\r\n", "*2\r\n:1\r\n%1\r\n+a\r\n$1\r\nb\r\n", "|1\r\n+a\r\n:1\r\n+OK\r\n"} {
		for n := range len(whole) {
			_, err := ReadReply(bufio.NewReader(strings.NewReader(whole[:n])))
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			require.Equal(t, want, err, "%q", whole[:n])
		}
	}
}

// What is no reply is an error.
func TestReadReplyRefuses(t *testing.T) {
	for _, bad := range []string{"OK\r\n", "\r\n", "x\n", "$x\r\n", "$-2\r\n", "*x\r\n", "*1\r\n?\r\n", "$2\r\nabcd", "%99999999999\r\n", "$?\r\n"} {
		_, err := ReadReply(bufio.NewReader(strings.NewReader(bad)))
		require.ErrorContains(t, err, "wire: ", "%q", bad)
	}
}

// Reading a request never panics, and what it returns as bytes is what it has read.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{
		encode("SET", "k", "v"), encode(), "*1\r\n$-1\r\n", "*1\r\n$99999999999\r\n", "*-1\r\n", "*3\r\n$3\r\nGET", "\n", "*9\n", "PING\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		words, raw, err := ReadRequest(bufio.NewReader(iotest.OneByteReader(bytes.NewReader(in))))
		Name(words)
		Setup(words)
		if err != nil {
			require.Nil(t, words)
			return
		}
		require.True(t, bytes.HasPrefix(in, raw))
		again, rawAgain, err := ReadRequest(bufio.NewReader(strings.NewReader(encode(words...))))
		require.NoError(t, err)
		require.Equal(t, words, again)
		require.Equal(t, encode(words...), string(rawAgain))
	})
}

// A request is called after its command, a script after its first line.
func TestName(t *testing.T) {
	for want, words := range map[string][]string{
		"":        nil,
		"GET":     {"get", "k"},
		"release": {"eval", "-- release: 1 deleted\nreturn 1", "1", "k"},
		"acquire": {"EVAL", "\n  -- acquire", "0"},
		"EVAL":    {"EVAL"},
		"EVALSHA": {"evalsha", "-- x"},
	} {
		require.Equal(t, want, Name(words))
	}
	for _, script := range []string{"", "\n", "return 1", "--release", "-- ", "-- :", "-- \n"} {
		require.Equal(t, "EVAL", Name([]string{"EVAL", script}), "%q", script)
	}
}

// The matchers know the commands and scripts of a lock, and leave connection set-up alone.
func TestMatches(t *testing.T) {
	script := func(name string) []string { return []string{"EVAL", "-- " + name + "\nreturn 1", "0"} }
	for _, words := range [][]string{{"setnx", "k", "v"}, {"SET", "k", "v"}, script("acquire")} {
		require.True(t, Acquires(words) && Any(words) && !Releases(words) && !Extends(words) && !Setup(words), "%q", words)
	}
	for _, words := range [][]string{{"DEL", "k"}, {"delex", "k"}, script("release")} {
		require.True(t, Releases(words) && Any(words) && !Acquires(words) && !Extends(words), "%q", words)
	}
	for _, words := range [][]string{{"EXPIRE", "k", "1"}, {"PEXPIRE", "k", "1"}, script("extend")} {
		require.True(t, Extends(words) && !Acquires(words) && !Releases(words), "%q", words)
	}
	for _, words := range [][]string{{"hello", "3"}, {"CLIENT", "SETINFO"}, {"PING"}} {
		require.True(t, Setup(words) && !Any(words), "%q", words)
	}
	require.False(t, Any(nil) && Setup(nil))
}
