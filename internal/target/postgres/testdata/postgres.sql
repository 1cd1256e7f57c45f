-- each session
SELECT set_config('TimeZone', 'UTC', false), set_config('statement_timeout', '30000', false), set_config('idle_in_transaction_session_timeout', '60000', false), set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false), set_config('DateStyle', 'ISO, YMD', false), set_config('IntervalStyle', 'postgres', false);

-- begin
BEGIN ISOLATION LEVEL READ COMMITTED;

-- lock the epoch
SELECT pg_advisory_xact_lock_shared($1::bigint);

-- prove the epoch
SELECT 1 / count(*) FROM (SELECT 1 FROM "_tailrace".epochs WHERE loop = $1::text AND epoch = $2::bigint) AS e;

-- upsert into (u)
INSERT INTO "public"."cpu" AS t ("time", "series", "nanos", "host", "usage", "mood", "overflow") SELECT u.c0, u.c1, u.c2, u.c3, u.c4, u.c5::public."Mood", u.c6 FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[]) AS u (c0, c1, c2, c3, c4, c5, c6) ON CONFLICT ("time", "series", "nanos") DO UPDATE SET "usage" = EXCLUDED."usage", "mood" = EXCLUDED."mood", "overflow" = COALESCE(t."overflow" || EXCLUDED."overflow", EXCLUDED."overflow", t."overflow");

-- upsert into (f)
INSERT INTO "public"."cpu" AS t ("time", "series", "nanos", "host", "usage", "mood", "overflow") SELECT u.c0, u.c1, u.c2, u.c3, u.c4, u.c5::public."Mood", u.c6 FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[]) AS u (c0, c1, c2, c3, c4, c5, c6) ON CONFLICT ("time", "series", "nanos") DO UPDATE SET "usage" = COALESCE(EXCLUDED."usage", t."usage"), "mood" = COALESCE(EXCLUDED."mood", t."mood"), "overflow" = COALESCE(t."overflow" || EXCLUDED."overflow", EXCLUDED."overflow", t."overflow");

-- fill in (l)
INSERT INTO "public"."cpu" AS t ("time", "series", "nanos", "host", "usage", "mood", "overflow") SELECT u.c0, u.c1, u.c2, u.c3, u.c4, u.c5::public."Mood", u.c6 FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[]) AS u (c0, c1, c2, c3, c4, c5, c6) ON CONFLICT ("time", "series", "nanos") DO UPDATE SET "usage" = COALESCE(t."usage", EXCLUDED."usage"), "mood" = COALESCE(t."mood", EXCLUDED."mood"), "overflow" = COALESCE(EXCLUDED."overflow" || jsonb_strip_nulls(t."overflow"), EXCLUDED."overflow", t."overflow");

-- insert into (L)
INSERT INTO "public"."cpu" AS t ("time", "series", "nanos", "host", "usage", "mood", "overflow") SELECT u.c0, u.c1, u.c2, u.c3, u.c4, u.c5::public."Mood", u.c6 FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[]) AS u (c0, c1, c2, c3, c4, c5, c6) WHERE NOT EXISTS (SELECT 1 FROM "public"."cpu" AS o WHERE o."time" = u.c0 AND o."series" = u.c1 AND o."nanos" = u.c2) ON CONFLICT ("time", "series", "nanos") DO UPDATE SET "usage" = COALESCE(t."usage", EXCLUDED."usage"), "mood" = COALESCE(t."mood", EXCLUDED."mood"), "overflow" = COALESCE(EXCLUDED."overflow" || jsonb_strip_nulls(t."overflow"), EXCLUDED."overflow", t."overflow");

-- update (n)
UPDATE "public"."cpu" AS t SET "usage" = COALESCE(t."usage", u.c4), "mood" = COALESCE(t."mood", u.c5::public."Mood"), "overflow" = COALESCE(u.c6 || jsonb_strip_nulls(t."overflow"), u.c6, t."overflow") FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[]) AS u (c0, c1, c2, c3, c4, c5, c6) WHERE t."time" = u.c0 AND t."series" = u.c1 AND t."nanos" = u.c2;

-- insert into (i)
INSERT INTO "public"."cpu" AS t ("time", "series", "nanos", "host", "usage", "mood", "overflow") SELECT u.c0, u.c1, u.c2, u.c3, u.c4, u.c5::public."Mood", u.c6 FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[]) AS u (c0, c1, c2, c3, c4, c5, c6);

-- insert into (a)
INSERT INTO "public"."cpu" AS t ("time", "series", "nanos", "host", "usage", "mood", "overflow") SELECT u.c0, u.c1, u.c2, u.c3, u.c4, u.c5::public."Mood", u.c6 FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[]) AS u (c0, c1, c2, c3, c4, c5, c6) WHERE NOT EXISTS (SELECT 1 FROM "public"."cpu" AS o WHERE o."time" = u.c0 AND o."series" = u.c1 AND o."nanos" = u.c2) ON CONFLICT ("time", "series", "nanos") DO UPDATE SET "usage" = EXCLUDED."usage", "mood" = EXCLUDED."mood", "overflow" = COALESCE(t."overflow" || EXCLUDED."overflow", EXCLUDED."overflow", t."overflow");

-- update (p)
UPDATE "public"."cpu" AS t SET "usage" = u.c4, "mood" = u.c5::public."Mood", "overflow" = COALESCE(t."overflow" || u.c6, u.c6, t."overflow") FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[]) AS u (c0, c1, c2, c3, c4, c5, c6) WHERE t."time" = u.c0 AND t."series" = u.c1 AND t."nanos" = u.c2;

-- delete from (d)
DELETE FROM "public"."cpu" AS t USING unnest($1::timestamptz[], $2::uuid[], $3::int2[]) AS u (c0, c1, c2) WHERE t."time" = u.c0 AND t."series" = u.c1 AND t."nanos" = u.c2;

-- upsert into (A)
INSERT INTO "public"."cpu" AS t ("time", "series", "nanos", "host", "usage", "mood", "overflow") SELECT u.c0, u.c1, u.c2, u.c3, u.c4, u.c5::public."Mood", u.c6 FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[], $8::timestamptz[], $9::uuid[], $10::int2[]) AS u (c0, c1, c2, c3, c4, c5, c6, o0, o1, o2) WHERE NOT EXISTS (SELECT 1 FROM "public"."cpu" AS o WHERE o."time" = u.o0 AND o."series" = u.o1 AND o."nanos" = u.o2) ON CONFLICT ("time", "series", "nanos") DO UPDATE SET "usage" = EXCLUDED."usage", "mood" = EXCLUDED."mood", "overflow" = COALESCE(t."overflow" || EXCLUDED."overflow", EXCLUDED."overflow", t."overflow");

-- update (S)
UPDATE "public"."cpu" AS t SET "usage" = u.c4, "mood" = u.c5::public."Mood", "overflow" = COALESCE(t."overflow" || u.c6, u.c6, t."overflow") FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[], $8::timestamptz[], $9::uuid[], $10::int2[]) AS u (c0, c1, c2, c3, c4, c5, c6, o0, o1, o2) WHERE t."time" = u.c0 AND t."series" = u.c1 AND t."nanos" = u.c2 AND NOT EXISTS (SELECT 1 FROM "public"."cpu" AS o WHERE o."time" = u.o0 AND o."series" = u.o1 AND o."nanos" = u.o2);

-- change a key in (F)
DELETE FROM "public"."cpu" AS t USING unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::timestamptz[], $5::uuid[], $6::int2[]) AS u (c0, c1, c2, o0, o1, o2) WHERE t."time" = u.c0 AND t."series" = u.c1 AND t."nanos" = u.c2 AND EXISTS (SELECT 1 FROM "public"."cpu" AS o WHERE o."time" = u.o0 AND o."series" = u.o1 AND o."nanos" = u.o2) AND NOT (t."time" = u.o0 AND t."series" = u.o1 AND t."nanos" = u.o2);

-- change a key in (M)
UPDATE "public"."cpu" AS t SET "time" = u.c0, "series" = u.c1, "nanos" = u.c2, "usage" = u.c4, "mood" = u.c5::public."Mood", "overflow" = COALESCE(t."overflow" || u.c6, u.c6, t."overflow") FROM unnest($1::timestamptz[], $2::uuid[], $3::int2[], $4::text[], $5::float8[], $6::text[], $7::jsonb[], $8::timestamptz[], $9::uuid[], $10::int2[]) AS u (c0, c1, c2, c3, c4, c5, c6, o0, o1, o2) WHERE t."time" = u.o0 AND t."series" = u.o1 AND t."nanos" = u.o2;

-- truncate (t)
DELETE FROM "public"."cpu";

-- many new rows
COPY "public"."cpu" ("time", "series", "nanos", "host", "usage") FROM STDIN (FORMAT binary);

-- many rows of which some are there
CREATE TEMPORARY TABLE IF NOT EXISTS pg_temp.tailrace_1ba357728a1a909f ON COMMIT DELETE ROWS AS SELECT "time", "series", "nanos", "host", "usage" FROM "public"."cpu" WITH NO DATA;
COPY pg_temp.tailrace_1ba357728a1a909f ("time", "series", "nanos", "host", "usage") FROM STDIN (FORMAT binary);
INSERT INTO "public"."cpu" AS t ("time", "series", "nanos", "host", "usage") SELECT u.c0, u.c1, u.c2, u.c3, u.c4 FROM (SELECT "time" AS c0, "series" AS c1, "nanos" AS c2, "host" AS c3, "usage" AS c4 FROM pg_temp.tailrace_1ba357728a1a909f) AS u ON CONFLICT ("time", "series", "nanos") DO UPDATE SET "usage" = EXCLUDED."usage";

-- staging tables, version 1
-- One row. Whoever makes or alters tables locks it, so that two never do so at once.
CREATE TABLE IF NOT EXISTS "_tailrace".version (version bigint PRIMARY KEY);
INSERT INTO "_tailrace".version SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM "_tailrace".version);

-- The epoch of each loop (FENCED).
CREATE TABLE IF NOT EXISTS "_tailrace".epochs (
	loop  text PRIMARY KEY,
	epoch bigint NOT NULL
);

-- Who runs each loop, and until when nobody else may. The holder is '' when the lease was given back.
CREATE TABLE IF NOT EXISTS "_tailrace".leases (
	loop    text PRIMARY KEY,
	epoch   bigint NOT NULL,
	holder  text NOT NULL,
	ttl_ms  bigint NOT NULL,
	expires timestamptz NOT NULL
);

-- The consistent point of each loop.
CREATE TABLE IF NOT EXISTS "_tailrace".memo (
	loop             text PRIMARY KEY,
	point            text,
	point_time       timestamptz,
	mode             text NOT NULL,
	consistent_since timestamptz,
	updated          timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS "_tailrace".dead_letters (
	id       bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
	loop     text NOT NULL,
	stamp    text,
	relation text NOT NULL,
	key      bytea,
	op       text NOT NULL,
	payload  bytea,
	reason   text NOT NULL,
	time     timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS dead_letters_loop ON "_tailrace".dead_letters (loop, id);

-- The tables that Tailrace made, and which name of the source became which column. Names of sources
-- are kept as bytes: they may be no text.
CREATE TABLE IF NOT EXISTS "_tailrace".tables (
	schema_name   bytea NOT NULL,
	name          bytea NOT NULL,
	target_schema text NOT NULL,
	target        text NOT NULL,
	PRIMARY KEY (schema_name, name),
	UNIQUE (target_schema, target)
);
CREATE TABLE IF NOT EXISTS "_tailrace".columns (
	target_schema text NOT NULL,
	target_table  text NOT NULL,
	role          text NOT NULL,
	name          bytea NOT NULL,
	target        text NOT NULL,
	kind          text NOT NULL,
	PRIMARY KEY (target_schema, target_table, role, name)
);

-- staging tables, version 2
ALTER TABLE "_tailrace".memo ADD COLUMN IF NOT EXISTS skip bigint NOT NULL DEFAULT 0;

-- Of letters that were set aside twice one is kept. Those of before have no fingerprint.
ALTER TABLE "_tailrace".dead_letters ADD COLUMN IF NOT EXISTS fingerprint bytea;
CREATE UNIQUE INDEX IF NOT EXISTS dead_letters_fingerprint ON "_tailrace".dead_letters (loop, fingerprint);

-- staging tables, version 3
-- The place in the transaction. Those of before have none: their ids tell their order.
ALTER TABLE "_tailrace".dead_letters ADD COLUMN IF NOT EXISTS position bigint;

