module strata.dev/strata

go 1.23
