package sim

import "fmt"

// Resource is what a lock protects: a number that clients read, think about, and write back. It does not protect itself.
type Resource struct {
	w     *World
	name  string
	value int
	fence int64 // the largest token that it has seen
}

// Resource adds a shared value to the world.
func (w *World) Resource(name string, value int) *Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &Resource{w: w, name: name, value: value}
	w.resources = append(w.resources, r)
	return r
}

// Value is what the resource holds now.
func (r *Resource) Value() int {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.value
}

// Read lets the client read the resource.
func (c *Client) Read(r *Resource) int {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.record(Event{Kind: Read, Client: c.name, Key: r.name, Text: fmt.Sprintf("reads %s: %d", r.name, r.value)})
	return r.value
}

// ReadFenced is Read of a resource that looks at fencing tokens: it remembers the largest, and refuses smaller ones.
func (c *Client) ReadFenced(r *Resource, fence int64) (int, bool) {
	if !c.passes(r, fence, Read) {
		return 0, false
	}
	return c.Read(r), true
}

// WriteFenced is Write to such a resource. It reports whether the resource has taken the value.
func (c *Client) WriteFenced(r *Resource, value int, fence int64) bool {
	if !c.passes(r, fence, Write) {
		return false
	}
	c.Write(r, value)
	return true
}

// passes compares the token, and writes a refusal down.
func (c *Client) passes(r *Resource, fence int64, kind Kind) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if fence < r.fence {
		text := fmt.Sprintf("%s refused, token %d < %d", kind, fence, r.fence)
		c.w.record(Event{Kind: kind, Client: c.name, Key: r.name, Outcome: Failed, Text: text})
		return false
	}
	r.fence = fence
	return true
}

// Write lets the client write the resource, whatever others have done to it since it read.
func (c *Client) Write(r *Resource, value int) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	r.value = value
	c.w.record(Event{Kind: Write, Client: c.name, Key: r.name, Outcome: OK, Text: fmt.Sprintf("writes %s: %d", r.name, value)})
}
