package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// writeV2 answers POST /api/v2/write: all or nothing.
func (s *Server) writeV2(w http.ResponseWriter, r *http.Request) *problem {
	params := r.URL.Query()
	who, p := s.principal(r, params)
	if p != nil {
		return p
	}
	precision, err := lineprotocol.ParsePrecisionV2(params.Get("precision"))
	if err != nil {
		return problemf(http.StatusBadRequest, "%s", err.Error())
	}
	ref := params.Get("bucket")
	if ref == "" {
		return problemf(http.StatusNotFound, "bucket not found: name one, as ?bucket=NAME or ?bucket=ID")
	}
	bucket, p := s.bucket(r.Context(), orgOf(params), ref)
	if p != nil {
		return p
	}
	return s.write(w, r, who, bucket, lineprotocol.Options{Precision: precision, Mode: lineprotocol.Strict})
}

// writeV1 answers POST /write: it keeps the good lines.
func (s *Server) writeV1(w http.ResponseWriter, r *http.Request) *problem {
	params := r.URL.Query()
	who, p := s.principal(r, params)
	if p != nil {
		return p
	}
	precision, err := lineprotocol.ParsePrecisionV1(params.Get("precision"))
	if err != nil {
		return problemf(http.StatusBadRequest, "%s", err.Error())
	}
	ref := databaseRef(params)
	if ref == "" {
		return problemf(http.StatusBadRequest, "database is required")
	}
	bucket, p := s.bucket(r.Context(), "", ref)
	if p != nil {
		if p.status == http.StatusNotFound {
			p.message = fmt.Sprintf("database not found: %q", ref)
		}
		return p
	}
	return s.write(w, r, who, bucket, lineprotocol.Options{Precision: precision, Mode: lineprotocol.Partial})
}

// orgOf returns the organisation that the parameters name, by id or name.
func orgOf(params url.Values) string {
	if id := params.Get("orgID"); id != "" {
		return id
	}
	return params.Get("org")
}

// defaultPolicy is the retention policy that a 1.x database has by itself.
const defaultPolicy = "autogen"

// databaseRef returns the bucket that the parameters db and rp mean: db/rp, as in InfluxDB 2.x.
func databaseRef(params url.Values) string {
	db, rp := params.Get("db"), params.Get("rp")
	if db == "" || rp == "" {
		return db
	}
	return db + "/" + rp
}

// bucket finds a bucket. DB/autogen is DB too; no other policy is, because the points of two policies
// (raw and downsampled, say) must not run into one table.
func (s *Server) bucket(ctx context.Context, org, ref string) (Bucket, *problem) {
	b, err := s.deps.Intake.Bucket(ctx, org, ref)
	var unknown *UnknownBucketError
	if db, found := strings.CutSuffix(ref, "/"+defaultPolicy); found && errors.As(err, &unknown) {
		b, err = s.deps.Intake.Bucket(ctx, org, db)
	}
	if err != nil {
		return b, s.intakeProblem(err)
	}
	return b, nil
}

// write reads the body and gives it to the Intake.
func (s *Server) write(w http.ResponseWriter, r *http.Request, who Principal, bucket Bucket, opt lineprotocol.Options) *problem {
	if !who.MayWrite(bucket) {
		return problemf(http.StatusForbidden, "the token may not write to bucket %q", bucket.Name)
	}
	zipped, p := encoding(r)
	if p != nil {
		return p
	}
	limit := s.cfg.rawLimit(zipped)
	if r.ContentLength > limit {
		return s.tooLarge()
	}
	memory, err := s.budget.lease(r.Context(), s.cfg.expected(r))
	if err != nil {
		return s.memoryProblem(err)
	}
	defer memory.release()
	ws := s.workspaces.Get().(*workspace)
	defer s.release(ws)
	ws.body.reset(w, r, &s.cfg, limit)
	opt.Now, opt.MaxBytes, opt.AddTag = s.deps.Now(), s.cfg.MaxBodySize, s.cfg.Origin
	opt.Reserve = func(bytes int) error {
		defer ws.body.pause(time.Now())
		return memory.reserve(bytes)
	}
	res, p := s.read(ws, zipped, opt)
	if p != nil {
		return p
	}
	if err := s.keep(r.Context(), bucket, res); err != nil {
		return s.intakeProblem(err)
	}
	if res.Refused != nil {
		s.metrics.pointsRefused.Add(float64(res.Refused.Refused))
		return partialProblem(res, bucket)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// read reads and normalises the body.
func (s *Server) read(ws *workspace, zipped bool, opt lineprotocol.Options) (lineprotocol.Result, *problem) {
	content, err := ws.unzip(zipped)
	if err != nil {
		return lineprotocol.Result{}, s.bodyProblem(ws, err)
	}
	res, err := ws.norm.Normalize(content, opt)
	if err == nil {
		s.metrics.bytesRead.Add(float64(res.BytesRead))
		return res, nil
	}
	var bad *lineprotocol.ParseError
	if errors.As(err, &bad) {
		s.metrics.pointsRefused.Add(float64(bad.Refused))
		p := problemf(http.StatusBadRequest, "%s", bad.Error())
		p.line = bad.Lines[0].Line
		return res, p
	}
	if errors.Is(err, errNoMemory) || errors.Is(err, errTooMuch) {
		return res, s.memoryProblem(err)
	}
	return res, s.bodyProblem(ws, err)
}

// bodyProblem says what is wrong with a body of which reading failed with err.
func (s *Server) bodyProblem(ws *workspace, err error) *problem {
	if errors.Is(err, lineprotocol.ErrTooLarge) {
		return s.tooLarge()
	}
	if ws.body.err != nil {
		return ws.body.problem()
	}
	return problemf(http.StatusBadRequest, "the body is not valid gzip: %v", errors.Cause(err))
}

func (s *Server) tooLarge() *problem {
	p := problemf(http.StatusRequestEntityTooLarge,
		"request body too large: more than %d bytes (after decompression); send it in parts", s.cfg.MaxBodySize)
	p.hangUp = true
	return p
}

// keep gives the blocks to the Intake. The upload is complete: that the client goes away now does not
// stop it, or nobody would know what was kept.
func (s *Server) keep(ctx context.Context, bucket Bucket, res lineprotocol.Result) error {
	if res.Points == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.IntakeTimeout)
	defer cancel()
	if err := s.deps.Intake.Write(ctx, bucket.ID, res.Blocks); err != nil {
		return err
	}
	s.metrics.pointsAccepted.Add(float64(res.Points))
	s.metrics.bytesAccepted.Add(float64(res.Bytes))
	return nil
}

// partialProblem says which lines were not kept, in the words of InfluxDB 1.x.
func partialProblem(res lineprotocol.Result, bucket Bucket) *problem {
	p := problemf(http.StatusBadRequest, "partial write: %s dropped=%d for database: %s",
		res.Refused.Error(), res.Refused.Refused, bucket.Name)
	if res.Points == 0 {
		p.message = res.Refused.Error()
	}
	p.line = res.Refused.Lines[0].Line
	return p
}

func (s *Server) memoryProblem(err error) *problem {
	if errors.Is(err, errTooMuch) {
		p := problemf(http.StatusRequestEntityTooLarge,
			"request body too large: it needs more than the %d bytes that all bodies may take; send it in parts", s.cfg.BodyMemory)
		p.hangUp = true
		return p
	}
	p := s.unavailable("too many large writes at once: nothing of this one was kept; write it again later", 0)
	p.hangUp = true
	return p
}

// release keeps the workspace for another request.
func (s *Server) release(ws *workspace) {
	ws.body = body{}
	ws.norm.Shrink(keepBytes)
	s.workspaces.Put(ws)
}
