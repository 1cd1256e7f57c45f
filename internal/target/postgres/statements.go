package postgres

import (
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailrace-cdc/tailrace/internal/util/lru"
)

// Bounds of what is kept, however many sets of fields there are: whoever writes can make any number of them.
const (
	maxSQLBytes = 8 << 20 // of statements that a target remembers
	maxPrepared = 500     // statements that a connection keeps prepared
	maxTemps    = 64      // temporary tables that a connection keeps
)

// sqls remembers the statements of a target's tables.
type sqls struct {
	mu    sync.Mutex
	cache *lru.Cache[sqlKey, *groupSQL]
}

// A sqlKey is what a statement is built from: a table, and the verb, the mask and the key.
type sqlKey struct {
	table *table
	rest  string
}

func newSQLs() *sqls { return &sqls{cache: lru.New[sqlKey, *groupSQL](maxSQLBytes, nil)} }

func (s *sqls) get(t *table, rest []byte) (*groupSQL, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache.Get(sqlKey{t, string(rest)})
}

func (s *sqls) put(t *table, rest []byte, g *groupSQL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// What a merge needs is built later, and is about as much again, twice.
	s.cache.Put(sqlKey{t, string(rest)}, g, 200+len(rest)+3*(len(g.sql)+len(g.copy))+16*(len(g.columns)+len(g.old)))
}

// prepared is what a connection has at the server.
type prepared struct {
	names   *lru.Cache[string, string] // of statements, by their text
	made    int                        // names that were given out
	closing []string                   // statements that are to be given up
	temps   map[string]bool
}

// preparedOn returns what a connection has.
func preparedOn(pg *pgconn.PgConn) *prepared {
	const key = "tailrace statements"
	p, ok := pg.CustomData()[key].(*prepared)
	if !ok {
		p = &prepared{temps: map[string]bool{}}
		p.names = lru.New(maxPrepared, func(_, name string) { p.closing = append(p.closing, name) })
		pg.CustomData()[key] = p
	}
	return p
}

// name returns the name of a statement, and whether it has to be prepared first. A name is never used again.
func (p *prepared) name(sql string) (name string, fresh bool) {
	if name, ok := p.names.Get(sql); ok {
		return name, false
	}
	name = "tailrace" + strconv.Itoa(p.made)
	p.made++
	p.names.Put(sql, name, 1)
	return name, true
}

// forget says that a statement was not prepared, or may not have been.
func (p *prepared) forget(sql string) {
	if name, ok := p.names.Get(sql); ok {
		p.names.Remove(sql)
		p.closing = append(p.closing, name)
	}
}

// keepsTemp reports whether a temporary table is kept for the connection's next transactions.
func (p *prepared) keepsTemp(name string) bool {
	if !p.temps[name] && len(p.temps) < maxTemps {
		p.temps[name] = true
	}
	return p.temps[name]
}
