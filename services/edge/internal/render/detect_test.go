package render_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"quire.dev/services/edge/internal/render"
)

// detected is the most usual name of a text's language; "" if unknown.
func detected(file, content string) string {
	names := patient().Languages().Detect(file, content)
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func TestTheNameOfAFileDecidesItsLanguage(t *testing.T) {
	for file, want := range map[string]string{
		"main.go": "go", "A.GO": "go", "a.tar.py": "python", "a.tsv": "tsv", "a.csv": "csv", "a.ndjson": "json", "a.jsonl": "json", "a.ipynb": "json",
		"Info.plist": "xml", "App.csproj": "xml", "Jenkinsfile": "groovy", "build.gradle": "groovy", "Dockerfile": "docker", "Dockerfile.dev": "docker",
		"Containerfile": "docker", "Makefile": "makefile", "go.mod": "go", "Cargo.lock": "toml", "counter.v": "verilog", "a.h": "c", "a.m": "objective-c",
		"a.pl": "perl", "a.ts": "typescript", "notes.mdx": "markdown", "a.txt": "plaintext", "server.log": "plaintext", "go.sum": "plaintext", "LICENSE": "plaintext",
		"": "", "a": "", "a.": "", "a.klingon": "", "go": "", "....": "", "My notes about main": "",
	} {
		if got := detected(file, ""); got != want {
			t.Errorf("%q is %q, want %q", file, got, want)
		}
	}
}

func TestAContestedNameIsDecidedByTheContent(t *testing.T) {
	for _, test := range []struct{ file, content, want string }{
		{"proof.v", "Require Import Arith.\nTheorem plus_comm : forall n m, n + m = m + n.\nProof.\n", "coq"},
		{"counter.v", "module counter(input clk, output reg [3:0] n);\nalways @(posedge clk) n <= n + 1;\nendmodule\n", "verilog"},
		{"list.h", "#include <stddef.h>\nstruct list {\n\tstruct list *next;\n};\n", "c"},
		{"list.h", "#include <memory>\nnamespace lists {\ntemplate <typename T>\nclass List {\npublic:\n};\n}\n", "c++"},
		{"View.h", "#import <UIKit/UIKit.h>\n@interface View : UIView\n@end\n", "objective-c"},
		{"f.m", "function y = f(x)\n% doubles\ndisp(x);\ny = 2 * x;\n", "matlab"},
		{"rules.pl", ":- module(rules, [p/1]).\np(a).\n", "prolog"},
		{"de.ts", "<?xml version=\"1.0\"?>\n<!DOCTYPE TS>\n<TS></TS>\n", "xml"},
		{"main.go", "# A heading\n\n## Another one\n", "go"}, // nobody contests it
		{"notes.txt", "package main\n\nfunc main() {\n}\n", "plaintext"},
	} {
		if got := detected(test.file, test.content); got != test.want {
			t.Errorf("%s is %q, want %q", test.file, got, test.want)
		}
	}
}

func TestAContentWithoutANameHasALanguage(t *testing.T) {
	for _, test := range []struct{ want, content string }{
		{"go", "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"hi\")\n}\n"},
		{"go", "func (c *Cache) Get(key string) string {\n\treturn c.m[key]\n}\n"},
		{"python", "import os\n\ndef main():\n    print(os.getcwd())\n"},
		{"python", "#!/usr/bin/env -S python3.12 -u\nx = 1\n"},
		{"bash", "#!/bin/sh\necho hi\n"},
		{"bash", "set -euo pipefail\nfor f in *.go; do\n  echo \"$f\"\ndone\n"},
		{"perl", "#!/usr/bin/perl -w\n"},
		{"javascript", "import fs from 'node:fs'\n\nconst text = fs.readFileSync('x')\nconsole.log(text)\n"},
		{"javascript", "#!/usr/bin/env node\n"},
		{"typescript", "export interface Paste {\n  id: string\n}\n\nconst now = 1\n"},
		{"c", "#include <stdio.h>\n\nint main(void) {\n\tprintf(\"hi\");\n\treturn 0;\n}\n"},
		{"c++", "#include <iostream>\n\nint main() {\n\tstd::cout << 1;\n}\n"},
		{"c#", "using System;\nnamespace App;\npublic class Program\n{\n}\n"},
		{"java", "package dev.quire;\n\nimport java.util.List;\n\npublic class Main {\n}\n"},
		{"kotlin", "fun main() {\n    val x = 1\n    println(x)\n}\n"},
		{"rust", "use std::io;\n\nfn main() {\n    let mut x = 1;\n}\n"},
		{"ruby", "require 'json'\n\nclass Paste < Record\n  def title\n  end\nend\n"},
		{"php", "<?php\necho 1;\n"},
		{"haskell", "module Main where\n\nmain :: IO ()\nmain = print 1\n"},
		{"elixir", "defmodule Quire do\n  def go do\n  end\nend\n"},
		{"swift", "import Foundation\n\nstruct Paste: Codable {\n    let id: String\n}\n"},
		{"lua", "local json = require(\"json\")\nlocal function f(x)\n  return x\nend\n"},
		{"sql", "SELECT id, title\nFROM pastes\nWHERE id = 1;\n"},
		{"sql", "create table pastes (\n  id text primary key\n);\n"},
		{"docker", "FROM golang:1.26 AS build\nWORKDIR /src\nCOPY . .\nRUN go build\n"},
		{"makefile", ".PHONY: all\nall:\n\t@echo hi\n"},
		{"hcl", "resource \"aws_s3_bucket\" \"b\" {\n  bucket = \"x\"\n}\n"},
		{"nginx configuration file", "server {\n  listen 80;\n  location / {\n    proxy_pass http://a;\n  }\n}\n"},
		{"protocol buffer", "syntax = \"proto3\";\nmessage Paste {\n}\n"},
		{"html", "<!DOCTYPE html>\n<title>x</title>\n"},
		{"html", "<div class=\"a\">\n<p>hi</p>\n</div>\n"},
		{"xml", "<?xml version=\"1.0\"?>\n<a/>\n"},
		{"css", ":root { --a: 1 }\nbody {\n  color: red;\n}\n"},
		{"tex", "\\documentclass{article}\n\\begin{document}\n"},
		{"json", "{\"a\": [1, 2], \"b\": null}\n"},
		{"json", "[\n  1,\n  2\n]\n"},
		{"json", "{\"n\": 1}\n{\"n\": 2}\n"},
		{"json", "[" + strings.Repeat("{\"id\": \"x\"}, ", 1000) + "{}]"},
		{"yaml", "apiVersion: v1\nkind: Service\nmetadata:\n  name: quire\nspec:\n  ports:\n  - port: 80\n"},
		{"toml", "[package]\nname = \"quire\"\nversion = \"1.0\"\n"},
		{"ini", "[Unit]\nDescription=Quire\nAfter=network.target\n"},
		{"diff", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"},
		{"diff", "diff --git a/x b/x\n"},
		{"markdown", "# Title\n\n## Part\n\nSome text with a [link](https://example.com).\n"},
		{"markdown", "Some code:\n\n```go\nx := 1\n```\n"},
		{"csv", "city,country,founded\nAachen,Germany,765\n\"Xi'an, old\",China,-1046\n"},
		{"tsv", "name\tsize\na\t1\nb\t2\n"},
		{"go", "\uFEFFpackage main\r\n\r\nfunc main() {\r\n}\r\n"},
		{"ruby", "# -*- mode: ruby -*-\nx = 1\n"},
		{"python", "# vim: set ft=python ts=4:\nx\n"},
	} {
		if got := detected("", test.content); got != test.want {
			t.Errorf("%q is %q, want %q", test.content, got, test.want)
		}
	}
}

// TestProseHasNoLanguage: a text that is shown as another language is worse than a plain one.
func TestProseHasNoLanguage(t *testing.T) {
	for _, content := range []string{
		"", "\n\n \t\n", "x", "hello\nworld\n", "1,2,3\n", "{not json}", "[1, 2", "{", "[]]", "Dear all,\n\nthe meeting is at nine, in room 4,\nwith coffee, tea, and cake.\n",
		"total 8\ndrwxr-xr-x 2 root root 4096 Nov 25 main.go\n-rw-r--r-- 1 root root  120 Nov 25 x\n",
		"2026-11-25 12:00:00 INFO started\n2026-11-25 12:00:01 WARN slow\n2026-11-25 12:00:02 INFO ended\n",
		"import the file, then\nselect all of it and\ndef press enter\n", "From: a@example.com\nTo: b@example.com\nSubject: hello\n\nHi.\n",
		"We use class names that end\nfor each of the items.\nReturn soon.\n", "a\tb\n", "a = 1\n", "#!\n", "#! \n", "#!/usr/bin/env\n", "-*-", "vim:", "vim: ft=",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
	} {
		if got := detected("", content); got != "" && got != "plaintext" {
			t.Errorf("%q is %q", content, got)
		}
	}
}

// TestALanguageIsDetectedFromTheBeginning: a clue counts up to the bound and not beyond it, and no text makes more work.
func TestALanguageIsDetectedFromTheBeginning(t *testing.T) {
	const line = "func (c *Cache) Get() {"
	for bytes, want := range map[int]string{render.DetectBytes: "go", render.DetectBytes + 1: ""} {
		if got := detected("", strings.Repeat("x\n", render.DetectBytes)[:bytes-len(line)-1]+"\n"+line+"\n"); got != want {
			t.Errorf("with a clue that ends at byte %d it is %q, want %q", bytes, got, want)
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"[", "{", "\"", ",", "\t", "\n", "<", "ü", "\xff", "-*-", "vim:", "ft=", "#!", "func (", "a: ", "- ", " = ", "\x00", "\\", "x"}
	for range 300 {
		var text strings.Builder
		for text.Len() < render.DetectBytes+10 {
			text.WriteString(strings.Repeat(parts[random.IntN(len(parts))], 1+random.IntN(1+random.IntN(500))))
		}
		name := []string{"", "a.v", "a.h"}[random.IntN(3)]
		if got, want := detected(name, text.String()+strings.Repeat("\n"+line, 100)), detected(name, text.String()); got != want {
			t.Fatalf("seed %d: what follows the bound makes it %q, not %q", seed, got, want)
		}
	}
}
