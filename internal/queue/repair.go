package queue

import (
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// Repair puts a queue that no process has open in order, without deleting
// anything: what does not belong there is moved into the folder aside, the end of
// an interrupted write is cut off after a copy of it was put there, and what is
// missing is declared lost. It returns what it did.
func Repair(cfg Config) (done []string, err error) {
	cfg = cfg.withDefaults()
	if _, err := cfg.FS.List(cfg.Dir); err != nil {
		return nil, errors.Wrapf(err, "queue: list %s", cfg.Dir)
	}
	moved, err := moveForeign(cfg)
	if err != nil {
		return moved, err
	}
	done = moved
	lost, warned := cfg.Events.Lost, cfg.Events.Warned
	cfg.Events.Lost = func(x Loss) {
		done = append(done, "declared lost: "+x.String())
		if lost != nil {
			lost(x)
		}
	}
	cfg.Events.Warned = func(err error) {
		done = append(done, err.Error())
		if warned != nil {
			warned(err)
		}
	}
	cfg.manual = true
	q, err := Open(cfg)
	if err != nil {
		return done, err
	}
	if err = q.readToEnd(); err != nil {
		_ = q.Close()
		return done, err
	}
	return done, q.Close()
}

// moveForeign moves files that are not of this queue into the folder aside.
func moveForeign(cfg Config) (done []string, err error) {
	rep, err := Inspect(cfg, false)
	if err != nil {
		return nil, err
	}
	for _, p := range rep.Problems {
		if !strings.HasPrefix(p.What, "it belongs to") && !strings.HasPrefix(p.What, "this file does not") {
			continue
		}
		aside := filepath.Join(cfg.Dir, asideName)
		if err := disk.MkdirAll(cfg.FS, aside); err != nil {
			return done, errors.WithStack(err)
		}
		if err := cfg.FS.Rename(filepath.Join(cfg.Dir, p.File), filepath.Join(aside, p.File)); err != nil {
			return done, errors.WithStack(err)
		}
		done = append(done, "moved aside: "+p.File)
	}
	return done, nil
}
