package server

import (
	"log/slog"
	"sync"
	"time"
)

// logEvery is how often one kind of refusal is logged at most.
const logEvery = time.Second

// A refusalLog logs refused requests: one line per kind and second, with a count. A client that
// repeats a mistake a thousand times a second must not fill the disk.
type refusalLog struct {
	log *slog.Logger

	mu     sync.Mutex
	kinds  map[refusalKind]*refusal
	closed bool
}

// A refusalKind is a route with the status that it answered, or what stands before all routes, without a
// status; there are few of them.
type refusalKind struct {
	route  string
	status int
}

// A refusal is what is to be logged about one kind.
type refusal struct {
	count   int
	message string
	client  string
	timer   *time.Timer // runs while logEvery has not passed since the last line
}

func newRefusalLog(log *slog.Logger) *refusalLog {
	return &refusalLog{log: log, kinds: map[refusalKind]*refusal{}}
}

// add records a refused request.
func (l *refusalLog) add(kind refusalKind, message, client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.kinds[kind]
	if !ok {
		e = &refusal{}
		l.kinds[kind] = e
	}
	e.count++
	e.message, e.client = message, client
	if l.closed {
		l.write(kind, e)
	} else if e.timer == nil {
		l.write(kind, e)
		e.timer = time.AfterFunc(logEvery, func() { l.again(kind, e) })
	}
}

// again logs what has come since the last line.
func (l *refusalLog) again(kind refusalKind, e *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.timer = nil
	if e.count > 0 && !l.closed {
		l.write(kind, e)
		e.timer = time.AfterFunc(logEvery, func() { l.again(kind, e) })
	}
}

// close logs what is left.
func (l *refusalLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for kind, e := range l.kinds {
		if e.timer != nil {
			e.timer.Stop()
		}
		if e.count > 0 {
			l.write(kind, e)
		}
	}
}

func (l *refusalLog) write(kind refusalKind, e *refusal) {
	const longest = 300
	message := e.message
	if len(message) > longest {
		message = message[:longest] + "..."
	}
	attrs := []any{"route", kind.route}
	if kind.status != 0 {
		attrs = append(attrs, "status", kind.status)
	}
	l.log.Warn("request refused", append(attrs, "count", e.count, "reason", message, "client", e.client)...)
	e.count = 0
}
