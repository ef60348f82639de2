module github.com/aycoder/aycoder/bench

go 1.26.0
