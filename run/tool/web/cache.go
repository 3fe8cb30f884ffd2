package web

import (
	"sync"
	"time"
)

const (
	cacheTime    = 15 * time.Minute
	negativeTime = time.Minute // for errors of servers
	cacheSize    = 50 << 20    // bytes of text
)

// A cache keeps pages for a while, within a size. The zero cache is ready for use, by several goroutines at a time.
type cache struct {
	mu    sync.Mutex
	pages map[string]*page
	order []string // of the keys, oldest first
	size  int
}

// get returns the page for a URL, unless it is too old; nil: there is none.
func (c *cache) get(key string, now time.Time) *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pages[key]
	if p == nil {
		return nil
	}
	keep := cacheTime
	if p.Code >= 400 {
		keep = negativeTime
	}
	if age := now.Sub(p.Fetched); age < 0 || age > keep {
		return nil
	}
	return p
}

// put stores a page, which must not change any more.
func (c *cache) put(key string, p *page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pages == nil {
		c.pages = map[string]*page{}
	}
	c.remove(key)
	c.pages[key] = p
	c.order = append(c.order, key)
	c.size += size(key, p)
	for c.size > cacheSize && len(c.order) > 0 {
		c.remove(c.order[0])
	}
}

func (c *cache) remove(key string) {
	p := c.pages[key]
	if p == nil {
		return
	}
	delete(c.pages, key)
	c.size -= size(key, p)
	for i, k := range c.order {
		if k == key {
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			break
		}
	}
}

func size(key string, p *page) int { return len(key) + len(p.Text) + 500 }
