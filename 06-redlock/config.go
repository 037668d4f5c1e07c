package redlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config is a Locker in a JSON file such as testdata/redlock.json. Durations are strings like "50ms"; what the file
// leaves out has its default.
//
// Two things that such files often have are missing on purpose. There is no number of retries: the ctx of Lock says how long
// it waits. And there is no drift factor: the margin is one percent of the ttl and two milliseconds, because a
// smaller one gains nothing and can lose the lock.
//
// Who needs more (TLS, one password for each node) makes the clients and calls New. Lock.go does not need this file.
type Config struct {
	Nodes          []string `json:"nodes"` // "host:port" of each node; they don't replicate each other
	Username       string   `json:"username"`
	PasswordEnv    string   `json:"password_env"` // the environment variable that holds the password
	RequestTimeout Duration `json:"request_timeout"`
	RetryDelay     Duration `json:"retry_delay"`     // the longest first pause of Lock between attempts,
	MaxRetryDelay  Duration `json:"max_retry_delay"` // which doubles up to this
	RenewEvery     Duration `json:"renew_every"`
	MaxHold        Duration `json:"max_hold"`
}

// Duration is a time.Duration that JSON writes as "1m30s".
type Duration time.Duration

// UnmarshalText reads a duration that is not negative.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err == nil && v < 0 {
		err = fmt.Errorf("the duration %v is negative", v)
	}
	*d = Duration(v)
	return err
}

// MarshalText writes it as it is read.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// ReadConfig reads a Config. It refuses fields that it doesn't know: a misspelt one would silently be a default.
func ReadConfig(r io.Reader) (c Config, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err = d.Decode(&c); err != nil {
		return c, fmt.Errorf("lock config: %w", err)
	}
	if _, err = d.Token(); err != io.EOF {
		return c, errors.New("lock config: there is more after the closing brace")
	}
	return c, nil
}

// Open makes the clients and the Locker. It sends nothing. Call close when no lock is held any more.
func (c Config) Open() (l *Locker, close func() error, err error) {
	password, err := c.password()
	if err != nil {
		return nil, nil, err
	}
	opts, err := c.options()
	if err != nil {
		return nil, nil, err
	}
	var nodes []redis.UniversalClient
	close = func() (err error) {
		for _, node := range nodes {
			err = errors.Join(err, node.Close())
		}
		return err
	}
	for i, addr := range c.Nodes {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			return nil, nil, errors.Join(fmt.Errorf("lock config: node %d: %q is not host:port", i+1, addr), close())
		}
		nodes = append(nodes, redis.NewClient(&redis.Options{
			Addr: addr, Username: c.Username, Password: password,
			DialTimeout: time.Second, ReadTimeout: time.Second, ContextTimeoutEnabled: true,
			DialerRetries: 1, // a node that refuses says so at once: by default go-redis dials again for half a second
		}))
	}
	if l, err = New(nodes, opts...); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("lock config: %w", err), close())
	}
	return l, close, nil
}

// password looks where the file says. A password that is missing is an error here, and not at the first lock.
func (c Config) password() (string, error) {
	if c.PasswordEnv == "" {
		return "", nil
	}
	password := os.Getenv(c.PasswordEnv)
	if password == "" {
		return "", fmt.Errorf("lock config: the environment variable %s is not set, and password_env names it", c.PasswordEnv)
	}
	return password, nil
}

// options are those that the file gives.
func (c Config) options() ([]Option, error) {
	first, longest := time.Duration(c.RetryDelay), time.Duration(c.MaxRetryDelay)
	opts := []Option{
		WithRequestTimeout(time.Duration(c.RequestTimeout)),
		WithRenewEvery(time.Duration(c.RenewEvery)),
		WithMaxHold(time.Duration(c.MaxHold)),
	}
	switch {
	case first == 0 && longest == 0:
		return opts, nil
	case first == 0 || longest < first:
		return nil, fmt.Errorf("lock config: retry_delay %v and max_retry_delay %v: give both, the longer one last", first, longest)
	}
	return append(opts, WithBackoff(first, longest)), nil
}
