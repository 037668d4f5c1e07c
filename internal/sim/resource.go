package sim

import "fmt"

// Resource is what a lock protects: a number that clients read, think about, and write back. It does not protect itself.
type Resource struct {
	w     *World
	name  string
	value int
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

// Write lets the client write the resource, whatever others have done to it since it read.
func (c *Client) Write(r *Resource, value int) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	r.value = value
	c.w.record(Event{Kind: Write, Client: c.name, Key: r.name, Outcome: OK, Text: fmt.Sprintf("writes %s: %d", r.name, value)})
}
